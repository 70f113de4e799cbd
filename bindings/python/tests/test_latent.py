"""Keys in two parts: DeepSeek-V3's latent cache of 656 bytes a token, as FlashMLA and vLLM lay it out, against numpy."""

import ml_dtypes
import numpy as np
import pytest

import libfa

RANDOM = np.random.default_rng(21)
LATENT, ROPE, GROUP, PAGE = 512, 64, 128, 16
E4M3, BF16 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.bfloat16)


def parts_of(cache):
    """512 codes of float8_e4m3fn, a scale in float32 for each 128 of them, 64 numbers of bfloat16."""
    codes = cache[..., :LATENT].view(E4M3)
    scales = cache[..., LATENT : LATENT + 16].view("f4")
    return codes, scales, cache[..., LATENT + 16 :].view(BF16)


def exact(q, latent, rope, scale):
    """Attention of (heads, dim) over keys (tokens, dim), whose first elements are the values."""
    k = np.concatenate([latent, rope], -1).astype("f8")
    scores = q.astype("f8") @ k.T * scale
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ latent.astype("f8")


def rotated(x, cos, sin):
    """Neighbouring elements are pairs."""
    even, odd = x[..., ::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


def test_a_cache_of_656_bytes_a_token():
    lengths, heads, scale = [37, 20], 16, 192**-0.5
    cache = np.full((6, PAGE, 1, 656), 0xFF, "u1")
    table = np.array([[4, 0, 2], [1, 5, 3]], "i4")
    codes, scales, rope = parts_of(cache)
    angles = np.arange(64)[:, None] * 10000.0 ** -np.arange(0, 1, 2 / ROPE)
    cos, sin = np.cos(angles).astype("f4"), np.sin(angles).astype("f4")
    latent = RANDOM.standard_normal((sum(lengths), 1, LATENT), "f4").astype(BF16)
    unrotated = RANDOM.standard_normal((sum(lengths), 1, ROPE), "f4").astype(BF16)
    libfa.append(
        latent,
        None,
        codes,
        None,
        k_scale=scales,
        compute_scales=True,
        k_rope=unrotated,
        k_rope_cache=rope,
        block_table=table,
        cu_seqlens_new=np.cumsum([0, *lengths]).astype("i4"),
        rotary_cos=cos,
        rotary_sin=sin,
        rotary_tail=True,
        rotary_interleaved=True,
    )
    q = RANDOM.standard_normal((2, 1, heads, LATENT + ROPE), "f4").astype(BF16)
    found = libfa.attention(
        q,
        codes,
        codes,
        k_scale=scales,
        v_scale=scales,
        k_rope=rope,
        block_table=table,
        seqused_k=np.array(lengths, "i4"),
        softmax_scale=scale,
        out_dtype="float32",
    )
    assert found.shape == (2, 1, heads, LATENT)
    first = 0
    for b, length in enumerate(lengths):
        tokens = cache[table[b]].reshape(-1, 656)[:length]
        stored, groups, turned = parts_of(tokens)
        want = rotated(unrotated[first : first + length, 0].astype("f4"), cos[:length], sin[:length])
        np.testing.assert_allclose(turned.astype("f4"), want, rtol=2**-8, atol=1e-6)
        numbers = stored.astype("f4") * np.repeat(groups, GROUP, -1)
        given = latent[first : first + length, 0].astype("f4")
        assert np.abs(numbers - given).max() <= np.abs(given).max() / 16
        np.testing.assert_allclose(found[b, 0], exact(q[b, 0], numbers, turned, scale), atol=1e-5)
        first += length


def test_errors_name_the_arguments():
    q, k, rope = np.zeros((1, 1, 2, 24), "f4"), np.zeros((1, 5, 1, 16), "f4"), np.zeros((1, 5, 1, 8), "f4")
    v = k
    assert libfa.attention(q, k, v, k_rope=rope).shape == (1, 1, 2, 16)
    with pytest.raises(libfa.InvalidArgument, match="k has head dimension 16; q has 24"):
        libfa.attention(q, k, v)
    with pytest.raises(libfa.InvalidArgument, match="k has head dimension 16; expected 20"):
        libfa.attention(q, k, v, k_rope=rope[..., :4])
    with pytest.raises(libfa.InvalidArgument, match=r"k_rope has 4 keys; k has 5"):
        libfa.attention(q, k, v, k_rope=rope[:, :4])
    with pytest.raises(libfa.InvalidArgument, match=r"k_rope: got shape \(8,\), expected k's"):
        libfa.attention(q, k, v, k_rope=rope[0, 0, 0])
    with pytest.raises(libfa.InvalidArgument, match="k_rope has no memory.*both"):
        libfa.append(k, v, np.zeros((1, 5, 1, 16), "f4"), np.zeros((1, 5, 1, 16), "f4"), k_rope_cache=np.zeros((1, 5, 1, 8), "f4"))
