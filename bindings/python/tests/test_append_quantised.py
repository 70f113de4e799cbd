"""libfa.append into quantised caches, against the definitions of the formats in ml_dtypes and gguf; and the rates of vLLM's caches."""

import ml_dtypes
import numpy as np
import pytest

import libfa
from libfa.vllm import reshape_and_cache_flash

RANDOM = np.random.default_rng(11)
LARGEST = {"float8_e4m3fn": 448, "float8_e5m2": 57344}


def appended(x, cache, dtype=None, **given):
    """cache, after the rows of x (tokens, dim) were written to it as keys of one head."""
    libfa.append(x[None, :, None], None, cache[None, :, None], None, dtype_k=dtype, **given)
    return cache


def numbers_of_every_size():
    """Every upper half of an f32, and what lies around halves of steps of small floats."""
    halves = (np.arange(2**16, dtype="u4") << 16).view("f4")
    bits = RANDOM.integers(0, 2**32, 2**15, dtype="u4")
    near = (bits & 0xFFF00000 | RANDOM.choice(np.array([0, 1, 0x7FFFF, 0x80000, 0x80001], "u4"), bits.size)).view("f4")
    return np.concatenate([halves, bits.view("f4"), near])


@pytest.mark.parametrize("name", list(LARGEST))
def test_numbers_become_those_of_ml_dtypes(name):
    """Where ml_dtypes has infinity or NaN of a number, libfa has the largest one."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    x = numbers_of_every_size().reshape(-1, 128)
    found = appended(x, np.zeros(x.shape, dtype)).astype("f4")
    with np.errstate(all="ignore"):
        want = np.clip(x, -LARGEST[name], LARGEST[name]).astype(dtype).astype("f4")
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(np.signbit(found)[~np.isnan(x)], np.signbit(x)[~np.isnan(x)])


@pytest.mark.parametrize("scale", [1.0, -0.37, 3e-5])
@pytest.mark.parametrize("zero", [None, 2.5])
@pytest.mark.parametrize("name", ["int8", "int4", "uint4"])
def test_integers_are_rounded_to_even(name, zero, scale):
    low, high = {"int8": (-128, 127), "int4": (-8, 7), "uint4": (0, 15)}[name]
    steps = np.arange(-300, 300, dtype="f4") / 4
    x = np.concatenate([steps * np.float32(scale), numbers_of_every_size()[:40]])[:640].reshape(-1, 64)
    number = np.float32(scale)
    given = dict(k_scale=np.full((1, 1, 1, 1), number))
    if zero is not None:
        given["k_zero"] = np.full((1, 1, 1, 1), zero, "f4")
    cache = appended(x, np.zeros((x.shape[0], 64 if name == "int8" else 32), "u1"), name, **given)
    with np.errstate(all="ignore"):
        codes = x / number + np.float32(zero or 0)
        want = np.where(np.isnan(codes), 0, np.rint(np.clip(codes, low, high))).astype("i1")
    if name == "int8":
        found = cache.view("i1")
    else:
        found = np.stack([cache & 15, cache >> 4], -1).reshape(x.shape).astype("i1")
        found = np.where(found > high, found - 16, found)
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("name", ["q8_0", "q4_0"])
@pytest.mark.parametrize("amplitude", [1e-6, 1e-3, 1, 30, 1e4])
def test_blocks_have_the_bits_of_gguf(name, amplitude):
    gguf = pytest.importorskip("gguf", reason="the package gguf, which requirements.txt has, is missing")
    kind = {"q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0}[name]
    x = (RANDOM.standard_normal((500, 256)) * amplitude).astype("f4")
    x[0] = 0
    x[1] = np.rint(x[1] / amplitude) * amplitude  # ties
    x[2, ::2] = -x[2, 1::2]  # of two sizes, and of either sign
    want = gguf.quants.quantize(x, kind)
    found = appended(x, np.zeros(want.shape, "u1"), name)
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("type_of_scale", ["f4", "f2", ml_dtypes.bfloat16])
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize(("name", "largest"), [("int8", 127), ("int4", 7), ("float8_e4m3fn", 448), ("float8_e5m2", 57344)])
def test_computed_scales(name, largest, groups, type_of_scale):
    x = RANDOM.standard_normal((40, 64)).astype("f4") * RANDOM.uniform(0.1, 10, (40, 1)).astype("f4")
    x[3] = 0
    packed = name == "int4"
    cache, scale = np.zeros((40, 32 if packed else 64), "u1"), np.full((1, 40, 1, groups), 7, type_of_scale)
    appended(x, cache, name, k_scale=scale, compute_scales=True)
    most = np.abs(x).reshape(40, groups, -1).max(-1)
    np.testing.assert_array_equal(scale[0, :, 0], (most / np.float32(largest)).astype(type_of_scale))
    if packed:
        codes = np.stack([cache & 15, cache >> 4], -1).reshape(x.shape).astype("f4")
        codes = np.where(codes > 7, codes - 16, codes)
    else:
        codes = cache.view("i1" if name == "int8" else getattr(ml_dtypes, name)).astype("f4")
    steps = np.repeat(scale[0, :, 0].astype("f4"), 64 // groups, -1)
    assert (codes[3] == 0).all()
    rounding = {"float8_e4m3fn": 2**-4, "float8_e5m2": 2**-3}.get(name, 0)
    bound = np.maximum(steps * (0.5 if rounding == 0 else 2**-10), rounding * np.abs(x)) + np.abs(x) * 2**-8
    assert (np.abs(codes * steps - x) <= bound).all()


def test_computed_scales_and_zeros():
    x = (RANDOM.standard_normal((50, 64)) + RANDOM.uniform(-20, 20, (50, 1))).astype("f4")
    x[0], x[1] = 0, 5
    cache = np.zeros((50, 32), "u1")
    scale, zero = (np.zeros((1, 50, 1, 2), "f2") for _ in range(2))
    appended(x, cache, "uint4", k_scale=scale, k_zero=zero, compute_scales=True)
    codes = np.stack([cache & 15, cache >> 4], -1).reshape(x.shape).astype("f4")
    s, z = (np.repeat(t[0, :, 0].astype("f4"), 32, -1) for t in (scale, zero))
    assert (np.abs((codes - z) * s - x) <= 0.6 * s).all()
    assert ((codes[0] - z[0]) * s[0] == 0).all()
    low, high = (getattr(x.reshape(50, 2, 32), m)(-1) for m in ("min", "max"))
    most = np.abs(x).reshape(50, 2, 32).max(-1)
    np.testing.assert_array_equal(scale[0, :, 0], np.maximum(high / 15 - low / 15, most / 256).astype("f2"))


@pytest.mark.parametrize("dtype", ["int8", "uint4"])
def test_attention_reads_what_was_appended(dtype):
    """As from exact attention on the numbers that codes mean, and near that on the numbers themselves."""
    zeros = dtype == "uint4"
    k, v = (RANDOM.standard_normal((2, 30, 2, 64)).astype("f4") for _ in range(2))
    q = RANDOM.standard_normal((2, 1, 4, 64)).astype("f4")
    caches = [np.zeros((2, 40, 2, 32 if zeros else 64), "u1") for _ in range(2)]
    given = {name: np.zeros((2, 40, 2, 4), "f4") for name in ("k_scale", "v_scale", "k_zero", "v_zero")[: 4 if zeros else 2]}
    types = dict(dtype_k=dtype, dtype_v=dtype)
    for first in (0, 20):  # in two calls
        new = slice(first, first + (20 if first == 0 else 10))
        libfa.append(k[:, new], v[:, new], *caches, cache_seqlens=[first] * 2, compute_scales=True, **given, **types)
    out = libfa.attention(q, *caches, seqused_k=[30, 30], **given, **types)
    assert np.abs(out - libfa.attention(q, k, v)).max() < (0.15 if zeros else 0.01)


@pytest.mark.parametrize(("name", "dtype"), [("fp8", "float8_e4m3fn"), ("fp8_e5m2", "float8_e5m2"), ("int8", "int8")])
def test_reshape_and_cache_flash_of_vllm(name, dtype):
    torch = pytest.importorskip("torch", reason="without torch")
    key, value = torch.randn(7, 2, 16), torch.randn(7, 2, 16)
    caches = torch.zeros(2, 4, 8, 2, 16, dtype=torch.uint8)
    slots = torch.tensor([3, 4, -1, 31, 0, 9, 10])
    scales = torch.tensor([0.02]), torch.tensor([0.03, 0.05])
    reshape_and_cache_flash(key, value, caches[0], caches[1], slots, name, *scales)
    for x, cache, scale in zip((key, value), caches, scales):
        number = x / scale.reshape(1, -1, 1)
        want = number.round().clamp(-128, 127).to(torch.int8) if name == "int8" else number.to(getattr(torch, dtype))
        rows = cache.view(want.dtype).reshape(32, 2, 16)
        for i, slot in enumerate(slots.tolist()):
            if slot >= 0:
                assert torch.equal(rows[slot].float(), want[i].float())
    assert (caches.reshape(2, 32, 32)[:, 1] == 0).all()


@pytest.mark.parametrize("rotation", [{}, {"hadamard_k": True}, {"hadamard_v": True}])
def test_reshape_and_cache_flash_rotates(rotation):
    """Pages as libfa.append writes them with the same keywords."""
    key, value = RANDOM.standard_normal((2, 7, 2, 16)).astype("f4")
    slots = np.array([3, 4, -1, 31, 0, 9, 10], "i4")
    scale = np.full((1, 1, 1, 1), 0.03, "f4")
    ours, theirs = np.zeros((2, 2, 4, 8, 2, 16), "i1")
    reshape_and_cache_flash(key, value, *ours, slots, "int8", scale, scale, **rotation)
    libfa.append(key, value, *theirs, slot_mapping=slots, k_scale=scale, v_scale=scale, **rotation)
    np.testing.assert_array_equal(ours, theirs)
    plain = np.zeros_like(ours)
    reshape_and_cache_flash(key, value, *plain, slots, "int8", scale, scale)
    assert [(x != y).any() for x, y in zip(ours, plain)] == ["hadamard_k" in rotation, "hadamard_v" in rotation]


def test_mistakes_are_named():
    k, codes = np.zeros((1, 3, 1, 64), "f4"), np.zeros((1, 8, 1, 64), "i1")
    with pytest.raises(libfa.InvalidArgument, match="k_scale has no memory.*k_cache is of int8"):
        libfa.append(k, None, codes, None)
    with pytest.raises(libfa.InvalidArgument, match="k_scale has 1 row.*expected 8|k_scale has .*compute_scales=True"):
        libfa.append(k, None, codes, None, k_scale=np.zeros((1, 1, 1, 1), "f4"), compute_scales=True)
    with pytest.raises(libfa.InvalidArgument, match="compute_scales.*not quantised"):
        libfa.append(k, None, np.zeros((1, 8, 1, 64), "f4"), None, compute_scales=True)
    with pytest.raises(libfa.InvalidArgument, match="dtype_k: got 'int3'"):
        libfa.append(k, None, codes, None, dtype_k="int3")
    scale = np.zeros((1, 8, 1, 1), "f4")
    scale.flags.writeable = False
    with pytest.raises(libfa.InvalidArgument, match="k_scale: .*(read-only|writ)"):
        libfa.append(k, None, codes, None, k_scale=scale, compute_scales=True)
