"""The arguments of libfa.jax as arrays of JAX or NumPy, each of a type that it may have."""

from __future__ import annotations

import reprlib
import string
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from . import fields
from .errors import InvalidArgument
from .scalars import integer

FLOATS = {numpy.dtype("float32"), numpy.dtype("float16"), numpy.dtype(jnp.bfloat16)}
_FLOATING = "float32, float16 or bfloat16"
_INT32 = {numpy.dtype("int32")}
# The types of the optional ones.
_TYPES = {"any_float": FLOATS, "f32": FLOATS, "boolean": {numpy.dtype("bool"), numpy.dtype("uint8")}, "i32": _INT32}
TENSORS = {name: _TYPES[rules.type] for name, rules in fields.TENSORS.items()}
INTS = dict.fromkeys(fields.ARRAYS, _INT32)

# These modules know every array by a letter, and a call has a string of them. D is dlse, L lse and O out or dout.
_LETTERS = {"q": "q", "k": "k", "v": "v", "bias": "b", "mask": "m", "alibi_slopes": "a", "sinks": "s", "block_table": "t"}
_LETTERS |= {"cu_seqlens_q": "Q", "cu_seqlens_k": "K", "seqused_q": "u", "seqused_k": "U", "leftpad_k": "l"}
_LETTERS |= {"kv_batch_idx": "i", "q_offset": "o", "dlse": "D"}
_FREE = iter(sorted({*string.ascii_letters} - {*_LETTERS.values(), *"LO"}))
_LETTERS |= {name: next(_FREE) for name in (*TENSORS, *INTS) if name not in _LETTERS}
_NAMES = {letter: name for name, letter in _LETTERS.items()}
_KINDS: dict[str, set[Any]] = {**TENSORS, **INTS, **dict.fromkeys("qkv", FLOATS), "seqlens": _INT32}


def _refuse_type(dtype: Any, name: str) -> InvalidArgument:
    types = FLOATS if name == "out_dtype" else _KINDS[name]
    expected = _FLOATING if types == FLOATS else "int32" if types == _INT32 else "bool"
    shown = dtype.str if getattr(dtype, "byteorder", "=") == ">" else getattr(dtype, "name", dtype)
    return InvalidArgument(f"{name}: got dtype {shown}, expected {expected}")


def _of_numpy(x: Any, name: str, types: set[Any]) -> Any:
    """x in the type that JAX reads it in: without x64, 64 bits become 32."""
    if isinstance(x, numpy.ma.MaskedArray):
        raise TypeError(f"{name}: is a masked array, whose mask is not read; expected {name}.data, and mask= for masked keys")
    wide = x.dtype
    if wide in types:
        return x
    if not jax.config.jax_enable_x64 and wide.isnative and wide.name in ("float64", "int64"):
        narrow = numpy.dtype(wide.name.replace("64", "32"))
        if narrow in types:
            with numpy.errstate(over="ignore"):  # as JAX, to infinity
                found = numpy.asarray(x, narrow)
            if narrow.kind == "i" and (found != x).any():
                raise InvalidArgument(f"{name}: got {reprlib.repr(x)}, expected numbers that int32 can hold")
            return found
    raise _refuse_type(wide, name)


def _of_list(x: Any, name: str) -> Any:
    """An array of a list or tuple of integers."""
    numbers = [integer(value, name) for value in x]
    if any(not -(2**31) <= number < 2**31 for number in numbers):
        raise InvalidArgument(f"{name}: got {reprlib.repr(x)}, expected numbers that int32 can hold")
    return numpy.asarray(numbers, "int32")


def read(x: Any, name: str) -> Any:
    """The argument as an array that jax.jit takes, of a type that is computed with."""
    types = _KINDS[name]
    if isinstance(x, jax.Array):
        if x.dtype not in types:
            raise _refuse_type(x.dtype, name)
        return x
    if isinstance(x, (numpy.ndarray, numpy.generic)):
        return _of_numpy(x, name, types)
    if isinstance(x, (list, tuple)) and (name in INTS or name == "seqlens"):
        return _of_list(x, name)
    raise TypeError(f"{name}: a {type(x).__name__} is no array of JAX or NumPy")


def out_dtype(given: Any) -> Any:
    """The NumPy type of the keyword of that name."""
    try:
        dtype = numpy.dtype(given)
    except TypeError:
        raise InvalidArgument(f"out_dtype: got {given!r}, expected {_FLOATING}") from None
    if dtype not in FLOATS:
        raise _refuse_type(dtype, "out_dtype")
    return dtype


def letter_of(name: str) -> str:
    return _LETTERS[name]


def letters_of(*forms: str) -> str:
    """The letters of the optional tensors of these forms (schema/fields.def)."""
    return "".join(_LETTERS[name] for name, rules in fields.TENSORS.items() if rules.form in forms)


def names_of(letters: str) -> str:
    """As the custom call takes them: "bias,sinks"."""
    return ",".join(_NAMES[letter] for letter in letters)


def shaped(x: Any, name: str) -> Any:
    """The argument with the four dimensions, or the one of lengths, that the library asks for, and in its type."""
    if name in INTS:
        return jnp.asarray(x)
    x, expected = jnp.asarray(x), ""
    if name in "qkv":
        expected = "(batch, sequence, heads, dim), or packed (rows, heads, dim)"
        x = x[None] if x.ndim == 3 else x
    elif fields.TENSORS[name].form == "scores":
        expected = "(batch, heads, queries, keys) or its last dimensions"
        x = x.reshape((1,) * (4 - x.ndim) + x.shape)
        x = x.astype(bool) if name == "mask" else x
    elif fields.TENSORS[name].form == "pages":
        expected = "(batch, pages per sequence)"
        x = x[:, :, None, None] if x.ndim == 2 else x
    else:
        expected = "(heads,) or (batch, heads)"
        x = x[None] if x.ndim == 1 else x
        x = x[:, :, None, None] if x.ndim == 2 else x
        x = x.astype("float32")
    if x.ndim != 4:
        raise InvalidArgument(f"{name}: got shape {x.shape}, expected {expected}")
    return x
