"""The custom calls of libfa.jax, called without it: whatever buffers and attributes come, an error rather than a wrong read."""
# needs: jax

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import libfa.jax  # registers the calls

B, S, T, H, HK, D = 2, 5, 6, 4, 2, 8
FORWARD, BACKWARD = "libfa_attention", "libfa_attention_backward"
ATTRIBUTES = dict(
    **{name: np.int64(0) for name in ("attention_chunk", "num_threads", "max_seqlen_q", "max_seqlen_k", "num_splits")},
    **{name: np.int64(value) for name, value in dict(mask=0, window_left=-1, window_right=-1, flags=0).items()},
    softmax_scale=np.float32(0),
    softcap=np.float32(0),
)
OPTIONAL = {
    "b": ("bias", (1, 1, S, T), "f4"),
    "m": ("mask", (1, 1, S, T), "?"),
    "a": ("alibi_slopes", (1, H, 1, 1), "f4"),
    "s": ("sinks", (1, H, 1, 1), "f4"),
    "t": ("block_table", (B, 2, 1, 1), "i4"),
    "u": ("seqused_q", (B,), "i4"),
    "U": ("seqused_k", (B,), "i4"),
    "l": ("leftpad_k", (B,), "i4"),
    "i": ("kv_batch_idx", (B,), "i4"),
    "o": ("q_offset", (B,), "i4"),
    "Q": ("cu_seqlens_q", (B + 1,), "i4"),
    "K": ("cu_seqlens_k", (B + 1,), "i4"),
}
INPUTS = {"q": (B, S, H, D), "k": (B, T, HK, D), "v": (B, T, HK, D)}
LSE = (B, H, S, 1)
FLOATS = {"float32", "float16", "bfloat16"}
NAMES = {"float": FLOATS, "f4": {"float32"}, "?": {"bool"}, "i4": {"int32"}}

TYPES = [np.dtype(x) for x in "? i1 i4 i8 u1 f2 f4 f8 F".split()]
TYPES += [np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn)]


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def names(letters):
    """As the calls take them: "bias,sinks"."""
    return ",".join({"D": "dlse"}.get(letter, OPTIONAL.get(letter, (letter,))[0]) for letter in letters)


def zeros(shape, dtype="f4"):
    return jnp.asarray(np.zeros(shape, dtype))


def forward(given="", out=("f4", (B, S, H, D)), lse=("f4", LSE), attributes=ATTRIBUTES, **changed):
    arrays = [changed.get(name, zeros(shape)) for name, shape in INPUTS.items()]
    optional = [OPTIONAL.get(letter, ("", (1,), "f4")) for letter in given]
    arrays += [changed.get(name, zeros(shape, kind)) for name, shape, kind in optional]
    results = [jax.ShapeDtypeStruct(shape, dtype) for dtype, shape in (out, lse)]
    return jax.block_until_ready(jax.ffi.ffi_call(FORWARD, results)(*arrays, given=names(given), **attributes))


def backward(given="", wanted="qkv", results=None, **changed):
    shapes = INPUTS | {"out": (B, S, H, D), "lse": LSE, "dout": (B, S, H, D)}
    arrays = [changed.get(name, zeros(shape)) for name, shape in shapes.items()]
    optional = OPTIONAL | {"D": ("dlse", LSE, "f4")}
    arrays += [changed.get(optional[letter][0], zeros(*optional[letter][1:])) for letter in given]
    shapes = INPUTS | {"b": OPTIONAL["b"][1], "s": OPTIONAL["s"][1]}
    types = results or {}
    results = [jax.ShapeDtypeStruct(shapes.get(letter, (1,)), types.get(letter, "f4")) for letter in wanted]
    call = jax.ffi.ffi_call(BACKWARD, results)
    return jax.block_until_ready(call(*arrays, given=names(given), wanted=names(wanted), **ATTRIBUTES))


def refused(text, call, *given, **named):
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"INVALID_ARGUMENT: {text}"):
        call(*given, **named)


def test_the_calls_themselves():
    assert [x.shape for x in forward("bmas")] == [(B, S, H, D), LSE]
    assert len(backward("bsD", "qkvbs")) == 5


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("call", [forward, backward])
def test_types_of_inputs(call, name):
    for dtype in TYPES:
        x = zeros(INPUTS[name], dtype)
        same = {"k": x, "v": x} if name in "kv" else {}
        if dtype.name in FLOATS:
            call(**{name: x} | same, **({"results": dict.fromkeys("kv" if same else "q", dtype)} if call is backward else {}))
        else:
            refused(f"{name} has type .*; expected F32, F16 or BF16", call, **{name: x})


@pytest.mark.parametrize("letter", OPTIONAL)
def test_types_and_sizes_of_optional_inputs(letter):
    name, shape, kind = OPTIONAL[letter]
    allowed = NAMES["float" if letter == "b" else kind]
    for call in (forward, backward):
        for dtype in TYPES:
            if dtype.name not in allowed:
                refused(f"{name} has type .*; expected ", call, given=letter, **{name: zeros(shape, dtype)})
        for wrong in ((), (1, 2), (1, 1, 1, 1, 1)) if len(shape) == 4 else ():
            refused(f"{name} has {len(wrong)} dimensions; expected 4", call, given=letter, **{name: zeros(wrong, kind)})
        for count in (0, 1, 3) if len(shape) == 1 and letter not in "QK" else ():
            refused(f"{name} has {count} entries; expected 2", call, given=letter, **{name: zeros(count, kind)})


def test_types_and_ranks_of_results():
    for dtype in TYPES:
        if dtype.name not in FLOATS:
            refused("out has type .*; expected F32, F16 or BF16", forward, out=(dtype, (B, S, H, D)))
            for name, shape in (("out", (B, S, H, D)), ("dout", (B, S, H, D))):
                refused(f"{name} has type ", backward, **{name: zeros(shape, dtype)})
        if dtype.name not in FLOATS:
            for letter, name in zip("qkvb", ("dq", "dk", "dv", "dbias")):
                refused(f"{name} has type ", backward, "b", letter, results={letter: dtype})
        if dtype.name != "float32":
            refused("lse has type .*; expected F32", forward, lse=(dtype, LSE))
            refused("lse has type .*; expected F32", backward, lse=zeros(LSE, dtype))
            refused("dlse has type .*; expected F32", backward, "D", dlse=zeros(LSE, dtype))
            refused("dsinks has type .*; expected F32", backward, "s", "s", results={"s": dtype})
    refused("out has 3 dimensions; expected 4", forward, out=("f4", (S, H, D)))
    refused("lse has 3 dimensions; expected 4", forward, lse=("f4", (B, H, S)))
    for name in INPUTS:
        refused(f"{name} has 1 dimensions; expected 4", forward, **{name: zeros(3)})


def test_attributes():
    for name in ATTRIBUTES:
        less = {other: value for other, value in ATTRIBUTES.items() if other != name}
        refused(f"{name} is no attribute", forward, attributes=less)
        refused(f"{name} is no attribute", forward, attributes=less | {name: "text"})
    refused("given has a name that is unknown", forward, given="x")
    refused("given has a name that is unknown", forward, given="bb")
    refused("given has a name that is unknown", forward, given="D")
    refused("wanted has an unknown name", backward, wanted="x")
    results = [jax.ShapeDtypeStruct(shape, "f4") for shape in ((B, S, H, D), LSE)]
    arrays = [zeros(shape) for shape in INPUTS.values()]
    refused("given does not name", jax.ffi.ffi_call(FORWARD, results), *arrays, given="bias", **ATTRIBUTES)
