"""Caches that a Hadamard matrix rotates: against the matrix as Sylvester built it, and the errors of few bits where some channels are large."""

import ml_dtypes
import numpy as np
import pytest

import libfa

RANDOM = np.random.default_rng(31)
B, S, H, D = 2, 48, 2, 96  # whose blocks have 32 elements


def normal(*shape):
    return RANDOM.standard_normal(shape, "f4")


def rotated(x, block):
    matrix = np.ones((1, 1))
    while len(matrix) < block:
        matrix = np.kron([[1, 1], [1, -1]], matrix)
    return (x.reshape(*x.shape[:-1], -1, block) @ (matrix / np.sqrt(block)).T).reshape(x.shape)


@pytest.mark.parametrize("dim, block", [(64, 64), (96, 32), (40, 8), (33, 1), (576, 64)])
def test_rows_are_those_of_the_matrix(dim, block):
    k, v = normal(B, 5, H, dim), normal(B, 5, H, 32)
    k_cache, v_cache = np.zeros((B, 8, H, dim), "f4"), np.zeros((B, 8, H, 32), "f4")
    libfa.append(k, v, k_cache, v_cache, hadamard_k=True, cache_seqlens=[3, 0])
    np.testing.assert_allclose(k_cache[0, 3:], rotated(k[0].astype("f8"), block), atol=1e-6)
    np.testing.assert_array_equal(v_cache[1, :5], v[1])
    libfa.append(k, v, k_cache, v_cache, hadamard_v=True)
    np.testing.assert_array_equal(k_cache[1, :5], k[1])
    np.testing.assert_allclose(v_cache[:, :5], rotated(v.astype("f8"), 32), atol=1e-6)


@pytest.mark.parametrize("keywords", [dict(hadamard_k=True), dict(hadamard_v=True), dict(hadamard_k=True, hadamard_v=True)])
@pytest.mark.parametrize("queries", [1, 20])
def test_results_are_those_of_unrotated_keys_and_values(queries, keywords):
    q, k, v = normal(B, queries, 2 * H, D), normal(B, S, H, D), normal(B, S, H, D)
    cache = np.zeros((2, B, S, H, D), "f4")
    libfa.append(k, v, *cache, **keywords)
    np.testing.assert_allclose(libfa.attention(q, *cache, **keywords), libfa.attention(q, k, v), atol=3e-6)


def test_values_that_are_a_part_of_the_keys():
    both = dict(hadamard_k=True, hadamard_v=True)
    latent, rope, q = normal(1, S, 1, 512), normal(1, S, 1, 64), normal(1, 1, 16, 576)
    codes, scales = np.zeros((1, S, 1, 512), ml_dtypes.float8_e4m3fn), np.zeros((1, S, 1, 4), "f4")
    parts = np.zeros((1, S, 1, 64), "f4")
    libfa.append(latent, None, codes, None, k_scale=scales, compute_scales=True, k_rope=rope, k_rope_cache=parts, **both)
    np.testing.assert_array_equal(parts, rope)
    out = libfa.attention(q, codes, codes, k_scale=scales, v_scale=scales, k_rope=parts, **both)
    exact = libfa.attention(q, np.concatenate([latent, rope], -1), latent)
    assert abs(out - exact).max() < 0.1
    with pytest.raises(
        libfa.InvalidArgument, match="v is elements 0 .. 511 of k.* hadamard_k=True and hadamard_v=True or neither"
    ):
        libfa.attention(q, codes, codes, k_scale=scales, v_scale=scales, k_rope=parts, hadamard_k=True)


@pytest.mark.parametrize("dtype", ["int8", "int4", "q4_0"])
def test_large_channels_cost_codes_of_few_bits_less(dtype):
    q, k, v = normal(B, 8, 2 * H, 128), normal(B, S, H, 128), normal(B, S, H, 128)
    k[..., 7] *= 30
    v[..., 7] *= 30
    exact = libfa.attention(q, k, v)

    def error(**keywords):
        row = {"int8": 128, "int4": 64, "q4_0": 72}[dtype]
        cache = np.zeros((2, B, S, H, row), "i1" if dtype == "int8" else "u1")
        scales = {} if dtype == "q4_0" else dict(zip(("k_scale", "v_scale"), np.zeros((2, B, S, H, 1), "f4")))
        types = {} if dtype == "int8" else dict(dtype_k=dtype, dtype_v=dtype)
        libfa.append(k, v, *cache, **scales, **types, compute_scales=bool(scales), **keywords)
        return np.linalg.norm(libfa.attention(q, *cache, **scales, **types, **keywords) - exact)

    assert error(hadamard_k=True, hadamard_v=True) < 0.6 * error()


def test_the_backward_pass_has_no_such_keyword():
    q = normal(1, 4, 1, 8)
    with pytest.raises(TypeError, match="hadamard_k"):
        libfa.backward(q, q, q, q, normal(1, 1, 4), q, hadamard_k=True)
