"""Quantised keys and values, against those who define the formats: ml_dtypes, gguf, torch."""

import ml_dtypes
import numpy
import pytest

import libfa

RANDOM = numpy.random.default_rng(7)
Q = RANDOM.standard_normal((2, 3, 4, 64)).astype("float32")


def values_of(codes, dtype=None, scale=None, dim=None):
    """What v holds, as fa_forward reads it: one key, whose value is the result."""
    rows = codes.reshape(1, 1, -1, codes.shape[-1])
    heads = rows.shape[2]
    q = numpy.zeros((1, 1, heads, 8), "float32")
    k = numpy.zeros((1, 1, heads, 8), "float32")
    return libfa.attention(q, k, rows, dtype_v=dtype, v_scale=scale)[0, 0]


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_every_code_of_fp8(dtype):
    codes = numpy.arange(256, dtype="uint8").view(dtype).reshape(8, 32)
    numpy.testing.assert_array_equal(values_of(codes), codes.astype("float32"))


def test_every_code_of_integers():
    one = numpy.ones((1, 1, 1, 1), "float32")
    codes = numpy.arange(256, dtype="uint8").view("int8").reshape(8, 32)
    numpy.testing.assert_array_equal(values_of(codes, scale=one), codes.astype("float32"))
    pairs = numpy.arange(256, dtype="uint8").reshape(8, 32)
    halves = numpy.stack([pairs & 15, pairs >> 4], axis=-1).reshape(8, 64)
    numpy.testing.assert_array_equal(values_of(pairs, "uint4", one), halves.astype("float32"))
    numpy.testing.assert_array_equal(values_of(pairs, "int4", one), ((halves ^ 8).astype("int32") - 8).astype("float32"))


@pytest.mark.parametrize("name", ["q8_0", "q4_0"])
def test_blocks_of_ggml(name):
    gguf = pytest.importorskip("gguf", reason="the package gguf, which requirements.txt has, is missing")
    kind = {"q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0}[name]
    rows = gguf.quants.quantize(RANDOM.standard_normal((16, 128)).astype("float32"), kind)
    numpy.testing.assert_array_equal(values_of(rows, name), gguf.quants.dequantize(rows, kind))


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_a_result_is_that_of_what_codes_mean(layout):
    codes = RANDOM.integers(-127, 128, (2, 50, 2, 64)).astype("int8")
    scale = RANDOM.uniform(0.01, 0.02, (2, 50, 2, 1)).astype("float32")
    zero = RANDOM.uniform(-3, 3, (1, 1, 2, 4)).astype("float16")
    numbers = ((codes.astype("float64") - numpy.repeat(zero.astype("float64"), 16, axis=-1)) * scale).astype("float32")
    turned = (lambda x: x.transpose(0, 2, 1, 3)) if layout == "bhsd" else lambda x: x
    given = {"k_scale": turned(scale), "v_scale": turned(scale), "k_zero": turned(zero), "v_zero": turned(zero)}
    found = libfa.attention(turned(Q), turned(codes), turned(codes), layout=layout, **given)
    expected = libfa.attention(turned(Q), turned(numbers), turned(numbers), layout=layout)
    numpy.testing.assert_allclose(found, expected, atol=2e-5)


def test_mistakes_are_named():
    codes = numpy.zeros((2, 50, 2, 64), "int8")
    with pytest.raises(libfa.InvalidArgument, match="k_scale"):
        libfa.attention(Q, codes, codes)
    with pytest.raises(libfa.InvalidArgument, match="dtype_k: got 'int3', expected one of int8"):
        libfa.attention(Q, codes, codes, dtype_k="int3")
    with pytest.raises(libfa.InvalidArgument, match="whole 34 bytes"):
        libfa.attention(Q, codes.view("uint8"), codes, dtype_k="q8_0")
    with pytest.raises(libfa.InvalidArgument, match="k_scale is given.*not quantised"):
        libfa.attention(Q, Q[:, :, :2], Q[:, :, :2], k_scale=numpy.ones((1, 1, 1, 1), "float32"))
    with pytest.raises(libfa.InvalidArgument, match="k: got dtype int16"):
        libfa.attention(Q, codes.astype("int16"), codes)


def test_torch():
    torch = pytest.importorskip("torch", reason="without torch")
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).reshape(1, 1, 8, 32)
    zeros = torch.zeros(1, 1, 8, 32)
    torch.testing.assert_close(libfa.attention(zeros, zeros, codes), codes.float(), equal_nan=True, atol=0, rtol=0)


@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_arrays_with_a_byte_an_element_of_half_a_byte(name):
    codes = numpy.zeros((2, 5, 2, 64), getattr(ml_dtypes, name))
    for given in (None, name):
        with pytest.raises(libfa.InvalidArgument, match=f"k: got dtype {name}, which has a byte an element; .* dtype_k='{name}'"):
            libfa.attention(Q, codes, Q[:, :, :2], dtype_k=given)
