"""Every element type that NumPy, ml_dtypes and DLPack have, for every argument: taken, with its own width, or refused by name.
test_lazy.py does the same with torch's."""

import ctypes

import ml_dtypes
import numpy as np
import pytest

import libfa
from libfa import capi

FLOATS, FLOAT, BOOL, INT = {"float32", "float16", "bfloat16"}, {"float32"}, {"bool", "uint8"}, {"int32"}
CODES = {"float8_e4m3fn", "float8_e5m2"}  # of quantised keys and values; integers need a scale besides
Q, LSE, SCORES, HEADS, INTS = (1, 3, 2, 8), (1, 2, 3), (3, 3), (2,), (1,)
BASE = {name: np.zeros(Q, "f4") for name in ("q", "k", "v")}
BACKWARD = BASE | dict(out=np.zeros(Q, "f4"), lse=np.zeros(LSE, "f4"), dout=np.zeros(Q, "f4"))
PAGED = dict(seqused_k=np.array([3], "i4"))
# By name: the shape of an argument, the types that it takes, what else is given.
ATTENTION = {
    "q": (Q, FLOATS, {}),
    "k": (Q, FLOATS | CODES, {}),
    "v": (Q, FLOATS | CODES, {}),
    "out": (Q, FLOATS, {}),
    "lse": (LSE, FLOAT, {}),
    "bias": (SCORES, FLOATS, {}),
    "mask": (SCORES, BOOL, {}),
    "alibi_slopes": (HEADS, FLOATS, {}),
    "sinks": (HEADS, FLOATS, {}),
    "cu_seqlens_q": ((2,), INT, {}),
    "cu_seqlens_k": ((2,), INT, {}),
    "seqused_q": (INTS, INT, {}),
    "seqused_k": (INTS, INT, {}),
    "leftpad_k": (INTS, INT, {}),
    "kv_batch_idx": (INTS, INT, {}),
    "q_offset": (INTS, INT, {}),
    "block_table": ((1, 1), INT, PAGED),
}
GRADIENTS = {
    "q": (Q, FLOATS, {}),
    "k": (Q, FLOATS, {}),
    "out": (Q, FLOATS, {}),
    "lse": (LSE, FLOAT, {}),
    "dout": (Q, FLOATS, {}),
    "dlse": (LSE, FLOAT, {}),
    "delta": (LSE, FLOAT, {}),
    "dq": (Q, FLOATS, {}),
    "dk": (Q, FLOATS, {}),
    "dv": (Q, FLOATS, {}),
    "bias": (SCORES, FLOATS, {}),
    "mask": (SCORES, BOOL, {}),
    "alibi_slopes": (HEADS, FLOATS, {}),
    "sinks": (HEADS, FLOATS, {}),
    "dsinks": (HEADS, FLOAT, dict(sinks=np.zeros(HEADS, "f4"))),
    "dbias": (SCORES, FLOAT, dict(bias=np.zeros(SCORES, "f4"))),
    "seqused_k": (INTS, INT, {}),
}
CALLS = [(libfa.attention, BASE, name, *given) for name, given in ATTENTION.items()]
CALLS += [(libfa.backward, BACKWARD, name, *given) for name, given in GRADIENTS.items()]
IDS = [f"{call[0].__name__} {call[2]}" for call in CALLS]

NUMPY = [np.dtype(code) for code in "?bBhHiIlLqQefdgFDGO"]
NUMPY += [np.dtype(x) for x in ("S4", "U1", "V4", "V2", "M8[s]", "m8[s]", ">f4", ">f2", ">i4", [("a", "f4")])]
ML_DTYPES = [np.dtype(x) for x in vars(ml_dtypes).values() if isinstance(x, type) and issubclass(x, np.generic)]


def refused(call, array, taken, shown):
    """Calls with the array as the argument: nothing, or an error that names both."""
    function, base, name, _, _, more = call
    try:
        function(**{**base, **({"v": array} if name == "k" else {}), **more, name: array})
    except libfa.InvalidArgument as error:
        assert not taken, error
        assert str(error).startswith(f"{name}") or name == "v", error
        assert any(x in str(error) for x in shown), (str(error), shown)
        return
    assert taken, (name, shown)


@pytest.mark.parametrize("dtype", NUMPY + ML_DTYPES, ids=str)
@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_numpy(call, dtype):
    shape, types = call[3:5]
    array = np.zeros(shape, dtype)
    native = dtype.isnative and dtype.kind != "V" or dtype == ml_dtypes.bfloat16 or dtype.name in CODES
    taken = native and array.dtype.name in types and array.shape == shape
    if call[2] == "v":
        taken = taken and (dtype == np.float32 or dtype.name in CODES)  # as k is, or quantised
    shown = [dtype.name, dtype.str, array.dtype.name, f"shape {array.shape}", str(array.ndim)]
    if dtype.name in ("int4", "uint4"):
        shown.append("k has head dimension 16; q has 8")  # a byte has two codes
    refused(call, array, taken, shown)


class Capsule(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Capsule),
    ]


class Exporter:
    """An array of a library that only speaks DLPack: of any type, with any flags."""

    def __init__(self, shape, code, bits, lanes, flags=None, major=1):
        self.memory = np.zeros(4096, "u1")
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        tensor = Capsule(self.memory.ctypes.data, (1, 0), len(shape), code, bits, lanes, ctypes.addressof(self.shape), None, 0)
        self.made = tensor if flags is None else Versioned(major, 0, None, None, flags, tensor)

    def __dlpack__(self, *, max_version=None, **_):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self.name = b"dltensor_versioned" if isinstance(self.made, Versioned) and max_version else b"dltensor"
        shown = self.made if self.name != b"dltensor" or isinstance(self.made, Capsule) else self.made.tensor
        return new(ctypes.addressof(shown), self.name, None)

    def __dlpack_device__(self):
        return (1, 0)


DLPACK = {(2, 32): "float32", (2, 16): "float16", (4, 16): "bfloat16", (6, 8): "bool", (1, 8): "uint8", (0, 32): "int32"}


@pytest.mark.parametrize("lanes", [1, 2, 4])
@pytest.mark.parametrize("code", range(20))
def test_dlpack(code, lanes):
    """Every code with every width: read with its width."""
    for call in CALLS:
        shape, types = call[3:5]
        if call[2] in ("v", "q", "k"):
            continue
        if call[2] in ("sinks", "alibi_slopes"):
            types = FLOAT  # a library that libfa does not know converts nothing
        for bits in (1, 2, 4, 6, 8, 16, 32, 64, 128):
            known = DLPACK.get((code, bits)) if lanes == 1 else None
            refused(
                call,
                Exporter(shape, code, bits, lanes),
                known in types,
                (f"{known}", f"{bits}", "bool" if known == "uint8" else "float32"),
            )


@pytest.mark.parametrize("flags", range(8))
def test_flags_of_dlpack(flags):
    """Read-only arrays, and copies, are read and not written; sub-byte padding means nothing for these types."""
    array = Exporter(Q, 2, 32, 1, flags)
    libfa.attention(**BASE | dict(k=array), out=np.zeros(Q, "f4"))
    if flags & 3 == 0:
        libfa.attention(**BASE, out=array)
        return
    with pytest.raises(libfa.InvalidArgument, match="out: is read-only.*copy" if flags & 2 else "out: is read-only"):
        libfa.attention(**BASE, out=array)


def test_versions_of_dlpack():
    with pytest.raises(libfa.InvalidArgument, match="k: DLPack version 2"):
        libfa.attention(**BASE | dict(k=Exporter(Q, 2, 32, 1, 0, major=2)))


class Interface:
    """An array that only has an array interface, whose dtype may be named anything."""

    def __init__(self, typestr, name=None, **more):
        self.memory = np.zeros(4096, "u1")
        self.__array_interface__ = dict(shape=Q, typestr=typestr, data=(self.memory.ctypes.data, False), version=3) | more
        if name is not None:
            self.dtype = type("Dtype", (), {"name": name})


@pytest.mark.parametrize("kind", "tbiufcmMOSUV")
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_array_interfaces(kind, size):
    for order in "<>|":
        for name in (None, "float32", "bfloat16"):
            typestr = f"{order}{kind}{size}"
            taken = (typestr[1:] in ("f4", "f2") and order != ">") or (
                typestr[1:] == "V2" and name == "bfloat16" and order != ">"
            )
            try:
                libfa.attention(**BASE | dict(q=Interface(typestr, name)), out=np.zeros(Q, "f4"))
            except libfa.InvalidArgument as error:
                assert not taken and str(error).startswith("q") and "dtype" in str(error), error
            else:
                assert taken, (typestr, name)


def test_array_interfaces_with_a_mask():
    with pytest.raises(TypeError, match="q: has a mask"):
        libfa.attention(**BASE | dict(q=Interface("<f4", mask=np.zeros(Q, "?"))))
    with pytest.raises(libfa.InvalidArgument, match="q: its array interface has no address"):
        libfa.attention(**BASE | dict(q=Interface("<f4", data=None)))


@pytest.mark.parametrize("given", [True, False, 0, 4, 5, 6, -1, 99, "int32", "bool", "uint8", "float64", "", np.float64, float])
@pytest.mark.parametrize("name", ["out_dtype", "dtype_q", "dtype_kv", "dtype_out"])
def test_types_by_name_or_number(name, given):
    def call():
        if name == "out_dtype":
            return libfa.attention(**BASE, out_dtype=given)
        return libfa.Op(**{"dtype_q": "float32", "head_dim": 8, name: given})

    if given is not False and given == 0 and name in ("dtype_kv", "dtype_out"):
        call()  # fa.h's default
        return
    with pytest.raises((libfa.InvalidArgument, TypeError), match=name):
        call()


def test_types_of_out():
    for given in (np.float16, np.dtype("f2"), "float16", capi.FA_F16):
        assert libfa.attention(**BASE, out_dtype=given).dtype == np.float16
    assert libfa.attention(**BASE, out_dtype=ml_dtypes.bfloat16).dtype == ml_dtypes.bfloat16
    with pytest.raises(libfa.InvalidArgument, match="out_dtype: got dtype >f4"):
        libfa.attention(**BASE, out_dtype=np.dtype(">f4"))


@pytest.mark.parametrize("dtype", ["f2", ml_dtypes.bfloat16])
def test_sinks_of_16_bits(dtype):
    """Converted, and their gradient has their type."""
    rng = np.random.default_rng(1)
    q, k, v, dout = (rng.standard_normal(Q).astype("f4") for _ in range(4))
    sinks = rng.standard_normal(2).astype(dtype)
    want = libfa.attention(q, k, v, sinks=sinks.astype("f4"), return_lse=True)
    out, lse = libfa.attention(q, k, v, sinks=sinks, return_lse=True)
    assert (out == want[0]).all() and (lse == want[1]).all()
    exact = libfa.backward(q, k, v, out, lse, dout, sinks=sinks.astype("f4"), dsinks=True).dsinks
    found = libfa.backward(q, k, v, out, lse, dout, sinks=sinks, dsinks=True).dsinks
    assert found.dtype == sinks.dtype and (found == exact.astype(dtype)).all()


def test_lengths_that_are_no_int32():
    for name in ("cu_seqlens_q", "seqused_k", "leftpad_k", "q_offset"):
        for dtype in ("i8", "u4", "i2"):
            with pytest.raises(libfa.InvalidArgument, match=f"{name}: got dtype {np.dtype(dtype).name}, expected int32$"):
                libfa.attention(**BASE, **{name: np.zeros(2 if name.startswith("cu") else 1, dtype)})
    with pytest.raises(libfa.InvalidArgument, match="mask: got dtype int64, expected bool$"):
        libfa.attention(**BASE, mask=np.zeros(SCORES, "i8"))
