"""Views of arrays, as fa_tensor takes them, without a copy: through DLPack, __cuda_array_interface__, __array_interface__ or
the buffer protocol.

A view is a plain tuple (address, dtype, shape, strides, device, writable, owner): strides in elements, device one of
(FA_DEVICE_CPU, 0) and (FA_DEVICE_CUDA, index). It is valid while it and the array it was made of live.
"""

import ctypes
from typing import Any

from . import capi, fields
from .errors import InvalidArgument, Unreadable

View = tuple[int, int, tuple[int, ...], tuple[int, ...], tuple[int, int], bool, Any]

CPU = (capi.FA_DEVICE_CPU, 0)

NAMES = {
    capi.FA_F32: "float32",
    capi.FA_F16: "float16",
    capi.FA_BF16: "bfloat16",
    capi.FA_BOOL: "bool",
    capi.FA_I32: "int32",
    capi.FA_I64: "int64",
}
SIZES = {capi.FA_F32: 4, capi.FA_F16: 2, capi.FA_BF16: 2, capi.FA_BOOL: 1, capi.FA_I32: 4, capi.FA_I64: 8}
BY_NAME = {name: dtype for dtype, name in NAMES.items()}
BY_NAME["uint8"] = capi.FA_BOOL  # one byte, true when not zero

# Codes of quantised keys and values: the fa_dtype, elements and bytes of the smallest part of a row that is whole bytes.
CODES = {
    "int8": (capi.FA_I8, 1, 1),
    "float8_e4m3fn": (capi.FA_E4M3, 1, 1),
    "float8_e5m2": (capi.FA_E5M2, 1, 1),
    "int4": (capi.FA_I4, 2, 1),
    "uint4": (capi.FA_U4, 2, 1),
    "q8_0": (capi.FA_Q8_0, 32, 34),
    "q4_0": (capi.FA_Q4_0, 32, 18),
}

_typestrs = {"f4": capi.FA_F32, "f2": capi.FA_F16, "b1": capi.FA_BOOL, "u1": capi.FA_BOOL, "i4": capi.FA_I32, "i8": capi.FA_I64}
_formats = {
    "f": capi.FA_F32,
    "e": capi.FA_F16,
    "?": capi.FA_BOOL,
    "B": capi.FA_BOOL,
    "i": capi.FA_I32,
    "l": capi.FA_I64,  # on 64-bit Linux; what an item has is checked
    "q": capi.FA_I64,
}
_format_of = {capi.FA_F32: "f", capi.FA_F16: "e", capi.FA_BOOL: "?", capi.FA_I32: "i"}


def dtype_named(name: str, what: str) -> int:
    """The fa_dtype of "float32", "float16", "bfloat16", "bool", "uint8" or "int32", and of "int64" where it may be that."""
    dtype = BY_NAME.get(name)
    if dtype is None:
        raise dtype_error(name, what)
    return admitted(dtype, what)


def admitted(dtype: int, what: str) -> int:
    """dtype, which is that of positions and slots alone where it is int64."""
    if dtype == capi.FA_I64 and what not in fields.INDICES:
        raise dtype_error("int64", what)
    return dtype


def dtype_of(dtype: Any, what: str) -> int:
    """The fa_dtype of a name, of a number of libfa.capi, or of a dtype of numpy or torch."""
    if what in ("dtype_kv", "dtype_v"):
        for name, (number, _, _) in CODES.items():
            if (type(dtype) is int and dtype == number) or (type(dtype) is str and dtype == name):
                return number
    if type(dtype) is int:
        if dtype in SIZES or (dtype == capi.FA_DTYPE_DEFAULT and what in ("dtype_kv", "dtype_v", "dtype_k_rope", "dtype_out")):
            return admitted(dtype, what)
        raise dtype_error(str(dtype), what)
    if getattr(dtype, "byteorder", "=") == ">":
        raise dtype_error(dtype.str, what)
    if isinstance(dtype, type):  # numpy.float16
        return dtype_named(dtype.__name__ if dtype is not bool else str(dtype), what)
    return dtype_named(dtype if isinstance(dtype, str) else getattr(dtype, "name", str(dtype)).removeprefix("torch."), what)


_EXPECTED = {"mask": "bool", "workspace": "uint8"} | dict.fromkeys(("lse", "dlse", "delta", "dsinks"), "float32")
_EXPECTED |= dict.fromkeys(fields.ARRAYS, "int32")
_EXPECTED |= dict.fromkeys(fields.INDICES, "int32 or int64")
_EXPECTED |= {name: "int32" for name, rules in fields.TENSORS.items() if rules.type == "i32"}


def dtype_error(name: str, what: str) -> InvalidArgument:
    return InvalidArgument(f"{what}: got dtype {name}, expected {_EXPECTED.get(what, 'float32, float16 or bfloat16')}")


def type_name(x: Any, dtype: int) -> str:
    """The name of an array's type, whose fa_dtype is given: that of bool has uint8, too."""
    own = getattr(x, "dtype", None)
    name = getattr(own, "name", str(own)).removeprefix("torch.")
    return name if name == "uint8" else NAMES[dtype]


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def in_elements(strides: tuple[int, ...], size: int, what: str) -> tuple[int, ...]:
    """Strides in bytes as strides in elements of size bytes."""
    for stride in strides:
        if stride % size:
            raise InvalidArgument(
                f"{what}: got a stride of {stride} bytes, expected a multiple of its element's {size}; a contiguous copy works"
            )
    return tuple(stride // size for stride in strides)


class Adapter:
    """How arrays of one kind are read and made. This one knows the protocols only."""

    def view(self, x: Any, what: str) -> View:
        if hasattr(x, "__dlpack__"):
            return self.dlpack(x, what)
        if hasattr(x, "__cuda_array_interface__"):
            fields = x.__cuda_array_interface__
            return self.interface(fields, x, what, (capi.FA_DEVICE_CUDA, _index_of_device(fields["data"][0])))
        if hasattr(x, "__array_interface__"):
            return self.interface(x.__array_interface__, x, what, CPU)
        return self.buffer(x, what)

    def dlpack(self, x: Any, what: str) -> View:
        device = int(x.__dlpack_device__()[0])
        if device not in (1, 2, 3, 13):
            raise Unreadable(f"{what}: lives on a device of DLPack type {device}: neither CPU (1) nor CUDA (2)")
        # -1: nothing waits; the caller's stream is where the work goes, too.
        stream = {} if device in (1, 3) else {"stream": -1}
        try:
            capsule = x.__dlpack__(max_version=(1, 1), **stream)
        except TypeError:  # of a library that has not heard of versions
            capsule = x.__dlpack__(**stream)
        return self.capsule(capsule, what)

    def capsule(self, capsule: Any, what: str) -> View:
        try:
            view = capi.dlpack_view(capsule)
        except BufferError as error:
            raise Unreadable(f"{what}: {error}") from None
        if type(view[1]) is tuple:
            code, bits, lanes = view[1]
            kind = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}.get(code, f"DLPack type {code} of ")
            raise dtype_error(f"{kind}{bits}" + (f"x{lanes}" if lanes != 1 else ""), what)
        admitted(view[1], what)
        return view

    def interface(self, given: Any, x: Any, what: str, device: tuple[int, int]) -> View:
        typestr = given["typestr"]
        dtype = _typestrs.get(typestr[1:]) if typestr[0] in "<|" else None
        if dtype is None:
            name = str(getattr(getattr(x, "dtype", None), "name", typestr))
            if name != "bfloat16" or typestr not in ("<V2", "|V2"):  # as the interface calls ml_dtypes' type
                raise dtype_error(typestr if name in BY_NAME else name, what)
            dtype = capi.FA_BF16
        admitted(dtype, what)
        if given.get("mask") is not None:
            raise TypeError(
                f"{what}: has a mask, which libfa does not read; pass the elements alone, and mask= for masked keys"
            )
        if not isinstance(given.get("data"), tuple):
            raise Unreadable(f"{what}: its array interface has no address of its elements, expected data=(address, read-only)")
        shape, strides = tuple(given["shape"]), given.get("strides")
        strides = in_elements(tuple(strides), SIZES[dtype], what) if strides else contiguous(shape)
        address, read_only = given["data"]
        return address or 0, dtype, shape, strides, device, not read_only, x

    def buffer(self, x: Any, what: str) -> View:
        try:
            memory = memoryview(x)
        except TypeError:
            raise TypeError(
                f"{what}: a {type(x).__name__} is no array: expected DLPack, __cuda_array_interface__ or the buffer protocol"
            ) from None
        dtype = _formats.get(memory.format)
        if dtype is None or memory.itemsize != SIZES[dtype]:
            raise InvalidArgument(
                f"{what}: got a buffer of format {memory.format!r}, expected 'f' (float32), 'e' (float16), '?' or 'i'"
            )
        admitted(dtype, what)
        strides = in_elements(memory.strides or (), memory.itemsize, what)
        return _address(x), dtype, memory.shape or (), strides, CPU, not memory.readonly, memory

    def empty(self, like: Any, shape: tuple[int, ...], dtype: int) -> Any:
        """A new array of like's kind on like's device."""
        if hasattr(like, "__array_namespace__"):
            space = like.__array_namespace__()
            return space.empty(shape, dtype=getattr(space, NAMES[dtype]), device=like.device)
        if hasattr(like, "__dlpack__") or hasattr(like, "__cuda_array_interface__"):
            raise TypeError(f"out: how to make a {type(like).__name__} is not known; pass out=")
        count = 1
        for size in shape:
            count *= size
        if dtype not in _format_of:
            raise InvalidArgument(f"out: the buffer protocol has no {NAMES[dtype]}; pass out=")
        memory: Any = memoryview(bytearray(count * SIZES[dtype]))
        return memory.cast(_format_of[dtype], shape) if count else memory.cast(_format_of[dtype])

    def zeros(self, like: Any, shape: tuple[int, ...], dtype: int) -> Any:
        """The array that empty() makes, with zeros in it."""
        made = self.empty(like, shape, dtype)
        if not isinstance(made, memoryview):  # which is of new memory
            made[...] = 0
        return made

    def cast(self, x: Any, dtype: int, what: str) -> Any:
        """A copy of another type."""
        raise InvalidArgument(f"{what}: libfa cannot convert a {type(x).__name__}, expected {NAMES[dtype]}")

    def stream(self, x: Any) -> int:
        """The stream that work on x is enqueued on: where x's library is not known the one that __cuda_array_interface__
        names (version 3: None, 1 for the legacy default stream, 2 for the per-thread one, or an address), or the default one."""
        if hasattr(x, "__dlpack__") or not hasattr(x, "__cuda_array_interface__"):
            return 0
        stream = x.__cuda_array_interface__.get("stream")
        if stream == 0:
            raise Unreadable("q: its __cuda_array_interface__ names stream 0; expected None, 1, 2 or a stream's address")
        return stream or 0

    def why_not_written(self, x: Any) -> str:
        """Why view() has marked the array as not writable."""
        return "is read-only (or DLPack gives a copy of it), expected an array that can be written"

    def wrote(self, x: Any) -> None:
        """The elements of the caller's array x have changed."""

    def finish(self, out: Any) -> Any:
        """The caller's array for one that empty() made."""
        return out


def _index_of_device(address: int) -> int:
    """Which GPU device memory belongs to, which __cuda_array_interface__ does not say: the driver, which its maker has
    loaded, knows."""
    try:
        ask = ctypes.CDLL("libcuda.so.1").cuPointerGetAttribute
    except (OSError, AttributeError):
        return 0
    index = ctypes.c_int()
    device_ordinal = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return index.value if ask(ctypes.byref(index), device_ordinal, ctypes.c_uint64(address or 0)) == 0 else 0


class _Buffer(ctypes.Structure):
    """CPython's Py_buffer: the same in every version that this package runs on."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


def _address(x: Any) -> int:
    """The address of a buffer's first element, which Python code cannot get of a read-only buffer otherwise."""
    buffer = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(x), ctypes.byref(buffer), 0x1C)  # PyBUF_FULL_RO less its writability
    address = buffer.buf or 0
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    return address


def device_name(device: tuple[int, int]) -> str:
    return "the CPU" if device == CPU else f"CUDA device {device[1]}"
