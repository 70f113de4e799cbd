"""Bad input: always an exception of the right kind with a text that names the argument, never a crash, nothing written."""

import importlib

import numpy as np
import pytest

import libfa
from libfa import capi, fields


def tensors(**changed):
    rng = np.random.default_rng(1)
    given = {name: rng.standard_normal((2, 8, 2, 16)).astype("f4") for name in "qkv"}
    given.update(changed)
    return given


FLOATS = np.zeros((2, 8, 2, 16), "f4")
BYTES = np.zeros(4 * FLOATS.size + 64, "u1")
INTS = np.zeros(3, "i4")
READ_ONLY = np.zeros((2, 8, 2, 16), "f4")
READ_ONLY.flags.writeable = False
MISALIGNED_STRIDES = np.lib.stride_tricks.as_strided(BYTES.view("f4"), (2, 8, 2, 16), (514, 64, 32, 4))

REFUSED = {
    "an unsupported dtype": (dict(q=FLOATS.astype("f8")), "q: got dtype float64, expected float32"),
    "another byte order": (dict(q=FLOATS.astype(">f4")), "q: got dtype >f4"),
    "integers": (dict(k=FLOATS.astype("i4"), v=FLOATS.astype("i4")), "dtype"),
    "k and v of two types": (dict(k=FLOATS.astype("f2")), "v: got float32, expected k's float16"),
    "no dimensions": (dict(q=np.zeros((), "f4")), "q: got shape ()"),
    "two dimensions": (dict(q=FLOATS[0, 0]), "q: got shape (2, 16), expected (batch, sequence, heads, dim)"),
    "three dimensions without cu_seqlens": (dict(q=FLOATS[0]), "q: got shape (8, 2, 16)"),
    "another head dimension": (dict(k=FLOATS[..., :8]), "k has head dimension 8; q has 16"),
    "heads that do not divide": (dict(q=np.zeros((2, 8, 3, 16), "f4")), "heads"),
    "another batch": (dict(k=FLOATS[:1], v=FLOATS[:1]), "k has batch size 1; q has 2"),
    "strides between elements": (
        dict(q=MISALIGNED_STRIDES),
        "q: got a stride of 514 bytes, expected a multiple of its element's 4",
    ),
    "an address between elements": (dict(q=BYTES[1 : 1 + 4 * FLOATS.size].view("f4").reshape(FLOATS.shape)), "q's memory is "),
    "an output that overlaps": (dict(q=FLOATS, out=FLOATS), "out"),
    "a read-only output": (dict(out=READ_ONLY), "out: is read-only"),
    "an output of the wrong shape": (dict(out=np.zeros((2, 8, 2, 8), "f4")), "out"),
    "an output with stride 0": (
        dict(out=np.lib.stride_tricks.as_strided(np.zeros(512, "f4"), (2, 8, 2, 16), (0, 128, 64, 4))),
        "out",
    ),
    "out and another out_dtype": (dict(out=FLOATS, out_dtype="float16"), "out_dtype"),
    "an unknown out_dtype": (dict(out_dtype="float8"), "out_dtype: got dtype float8"),
    "an unknown layout": (dict(layout="sbhd"), "layout: got 'sbhd', expected 'bshd' or 'bhsd'"),
    "an unknown causal": (dict(causal="left"), "causal: got 'left'"),
    "cu_seqlens too long": (
        dict(q=FLOATS[0], cu_seqlens_q=[0, 4, 8], k=FLOATS[0], v=FLOATS[0], cu_seqlens_k=[0, 2, 4, 8]),
        "cu_seqlens_k: got shape (4,), expected (3,)",
    ),
    "cu_seqlens of nothing": (dict(q=FLOATS[0], cu_seqlens_q=[]), "cu_seqlens_q: got shape (0,)"),
    "cu_seqlens that fall": (
        dict(q=FLOATS[0], k=FLOATS[0], v=FLOATS[0], cu_seqlens_q=[0, 8, 4], cu_seqlens_k=[0, 4, 8]),
        "cu_seqlens_q",
    ),
    "int64 cu_seqlens": (dict(q=FLOATS[0], cu_seqlens_q=np.zeros(3, "i8")), "cu_seqlens_q: got dtype int64"),
    "indices with gaps": (dict(seqused_k=np.zeros(4, "i4")[::2]), "seqused_k: got a stride of 2 elements"),
    "indices out of range": (dict(seqused_k=[9, 9]), "seqused_k"),
    "a bias of the wrong shape": (dict(bias=np.zeros((3, 8, 8), "f4")), "bias"),
    "a bias of five dimensions": (dict(bias=np.zeros((1, 1, 1, 8, 8), "f4")), "bias: got shape"),
    "a mask of floats": (dict(mask=np.zeros((8, 8), "f4")), "mask"),
    "sinks of too many dimensions": (
        dict(sinks=np.zeros((1, 1, 2), "f4")),
        "sinks: got shape (1, 1, 2), expected (heads,)",
    ),
    "too few slopes": (dict(alibi_slopes=np.zeros(1, "f4")), "alibi_slopes"),
    "lse of the wrong shape": (dict(lse=np.zeros((2, 8), "f4"), return_lse=True), "lse"),
    "a negative softcap": (dict(softcap=-1.0), "softcap"),
    "a softcap that float32 holds as 0": (dict(softcap=1e-60), "softcap: got 1e-60, which float32 holds as 0; expected 0"),
    "a scale that is no number": (dict(softmax_scale=float("nan")), "softmax_scale"),
    "a scale of 0": (dict(softmax_scale=0.0), "softmax_scale: got 0.0, which float32 holds as 0; expected None"),
    "a scale that float32 holds as 0": (dict(softmax_scale=-1e-46), "softmax_scale: got -1e-46"),
    "a scale that float32 does not hold": (dict(softmax_scale=1e39), "softmax_scale"),
    "three sides of a window": (dict(window=(1, 2, 3)), "window: got (1, 2, 3), expected (left, right)"),
    "causal that cannot be looked up": (dict(causal=[]), "causal: got [], expected True, False or 'top_left'"),
    "a length no field holds": (dict(max_seqlen_q=2**80), "max_seqlen_q: got 1208925819614629174706176"),
    "splits no field holds": (dict(num_splits=2**40), "num_splits: got 1099511627776"),
    "lengths no int32 holds": (dict(seqused_k=[2**40, 1]), "seqused_k: got [1099511627776, 1]"),
    "device pointers on the CPU": (dict(device_pointers=True), "device_pointers=True, but q's device is the CPU"),
    "too many threads": (dict(num_threads=5000), "num_threads"),
    "a number no field holds": (dict(num_threads=2**40), "num_threads"),
    "a workspace too small": (dict(workspace=np.zeros(1, "u1"), num_splits=4), "workspace"),
    "pages and packed keys": (dict(block_table=np.zeros((2, 1), "i4"), cu_seqlens_k=[0, 8, 16]), "cu_seqlens_k"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    changed, text = REFUSED[what]
    before = FLOATS.copy()
    with pytest.raises(libfa.InvalidArgument) as error:
        libfa.attention(**tensors(**changed))
    assert isinstance(error.value, ValueError) and text in str(error.value), str(error.value)
    assert (FLOATS == before).all()


@pytest.mark.parametrize("name", ["softcap", "softmax_scale"])
def test_an_op_takes_no_number_for_0(name):
    with pytest.raises(libfa.InvalidArgument, match=f"{name}: got 1e-60, which float32 holds as 0"):
        libfa.Op(head_dim=8, dtype_q="float32", **{name: 1e-60})
    libfa.Op(head_dim=8, dtype_q="float32", **{name: 1e-45})
    libfa.Op(head_dim=8, dtype_q="float32", **{name: 0})


@pytest.mark.parametrize("module", ["libfa.torch", "libfa.jax"])
def test_a_softcap_that_float32_holds_as_0(module):
    pytest.importorskip(module.split(".")[1])
    x = importlib.import_module("torch").zeros(FLOATS.shape) if module == "libfa.torch" else FLOATS
    with pytest.raises(libfa.InvalidArgument, match="softcap: got 1e-60"):
        importlib.import_module(module).attention(x, x, x, softcap=1e-60)


def test_gradients_under_a_softcap_that_float32_holds_as_0():
    x = FLOATS
    with pytest.raises(libfa.InvalidArgument, match="softcap: got 1e-60"):
        libfa.backward(x, x, x, dout=x, out=x, lse=np.zeros((2, 2, 8), "f4"), softcap=1e-60)


NO_ARRAYS_AND_NO_NUMBERS = [
    (dict(q=3), "q: a int is no array"),
    (dict(k=None), "k: a NoneType is no array"),
    (dict(v="text"), "v: a str is no array"),
    (dict(q=[[1.0]]), "q: a list is no array"),
    (dict(q=np.ma.zeros(FLOATS.shape, "f4")), "q: is a masked array"),
    (dict(bias=np.ma.zeros((8, 8), "f4")), "bias: is a masked array"),
    (dict(softcap="1"), "softcap: got '1', expected a number"),
    (dict(softcap=np.ones(2)), "softcap: got array([1., 1.]), expected a number"),
    (dict(softmax_scale=[1.0]), "softmax_scale: got [1.0], expected a number"),
    (dict(window=4), "window: got 4, expected (left, right)"),
    (dict(window=(1, 2.5)), "window: got 2.5, expected an integer"),
    (dict(num_splits=1.5), "num_splits: got 1.5, expected an integer"),
    (dict(max_seqlen_k=np.float32(3)), "max_seqlen_k: got np.float32(3.0), expected an integer"),
    (dict(attention_chunk=np.zeros(2, "i4")), "attention_chunk: got array([0, 0], dtype=int32), expected an integer"),
    (dict(num_threads="2"), "num_threads: got '2', expected an integer"),
    (dict(seqused_k=[1, 1.5]), "seqused_k: got 1.5, expected an integer"),
    (dict(what=1), "what"),
]


@pytest.mark.parametrize("changed, text", NO_ARRAYS_AND_NO_NUMBERS, ids=lambda x: "" if isinstance(x, dict) else x)
def test_no_arrays_and_no_numbers(changed, text):
    with pytest.raises(TypeError) as error:
        libfa.attention(**tensors(**changed))
    assert text in str(error.value), str(error.value)


def test_kinds():
    assert issubclass(libfa.InvalidArgument, (ValueError, libfa.Error))
    assert issubclass(libfa.OutOfMemory, MemoryError) and issubclass(libfa.NoDevice, libfa.Error)
    assert issubclass(libfa.Unsupported, libfa.Error) and issubclass(libfa.DriverError, libfa.Error)


def test_no_device():
    """A device index that no machine has: NoDevice, with a text."""
    with pytest.raises((libfa.NoDevice, libfa.Unsupported)) as error:
        libfa.Op(dtype_q=capi.FA_F32, head_dim=16, device=capi.FA_DEVICE_CUDA, device_index=1000)
    assert str(error.value)


def test_unsupported(monkeypatch):
    monkeypatch.setenv("FA_FORCE_KERNEL", "none")
    libfa.clear_cache()
    with pytest.raises((libfa.Unsupported, libfa.InvalidArgument), match="none"):
        libfa.attention(**tensors())
    monkeypatch.delenv("FA_FORCE_KERNEL")
    libfa.attention(**tensors())


def test_every_status_has_its_exception(monkeypatch):
    for status, kind in (
        (capi.FA_ERROR_INVALID_ARGUMENT, ValueError),
        (capi.FA_ERROR_UNSUPPORTED, libfa.Unsupported),
        (capi.FA_ERROR_NO_DEVICE, libfa.NoDevice),
        (capi.FA_ERROR_OUT_OF_MEMORY, MemoryError),
        (capi.FA_ERROR_DRIVER, libfa.DriverError),
        (99, libfa.Error),
    ):
        monkeypatch.setattr(capi, "forward", lambda *_, status=status: status)
        with pytest.raises(kind):
            libfa.attention(**tensors())


def test_fields_that_are_none():
    with pytest.raises(TypeError, match="head_dims"):
        libfa.Op(dtype_q=capi.FA_F32, head_dims=16)
    with pytest.raises(libfa.InvalidArgument, match="head_dim"):
        libfa.Op(dtype_q=capi.FA_F32, head_dim=2**80)
    with pytest.raises(libfa.InvalidArgument, match="head_dim"):
        libfa.Op(dtype_q=capi.FA_F32)
    with pytest.raises(libfa.InvalidArgument, match="dtype_q: got dtype float8"):
        libfa.Op(dtype_q="float8", head_dim=16)
    with pytest.raises(TypeError, match="head_dim: got 1.5, expected an integer"):
        libfa.Op(dtype_q="float32", head_dim=1.5)


@pytest.mark.parametrize(
    "value", [3, (1, 2), (1, 1, 3, (1, 1, 1, 1)), (1, 1, (1,), (1,)), (1, 1, (1, 1, 1, "1"), (1,) * 4)], ids=str
)
def test_the_module_of_the_header_checks_types(value):
    args = capi.fa_forward_args()
    with pytest.raises(TypeError):
        args.q = value
    for wrong in (3, None, object()):
        with pytest.raises((TypeError, ValueError)):
            capi.fa_forward(wrong, args)
        with pytest.raises((TypeError, ValueError)):
            capi.dlpack_view(wrong)


@pytest.mark.parametrize(
    "wrong", [3, (), (0, 1, (1,) * 4), (0, 1, (1,) * 4, (1,) * 3), (0, 1, (1,) * 5, (1,) * 5), (0, 1, 4, 4)], ids=str
)
def test_forward_checks_views(wrong):
    """Whatever is no view is refused before anything is read."""
    op = libfa.Op(dtype_q="float32", head_dim=16)
    view = (FLOATS.ctypes.data, capi.FA_F32, FLOATS.shape, (256, 32, 16, 1))
    for at in range(5):
        views = [view] * 4 + [None]
        views[at] = wrong
        with pytest.raises(TypeError, match="expected a view"):
            capi.forward(op.handle, *views, False, None, None)
    for odd in (("x", 1), (0, "x")):
        with pytest.raises(TypeError):
            capi.forward(op.handle, odd + view[2:], view, view, view, None, False, None, None)
    with pytest.raises((TypeError, ValueError)):
        capi.forward(op.handle, view, view, view, view, None, False, None, 3)
    absent = (None,) * (len(fields.TENSORS) - 1)
    for tensors, rest in ((3, None), (absent, None), ((3, *absent), None), (None, (0,) * 13), (None, ("x",) * 14)):
        with pytest.raises(TypeError):
            capi.forward(op.handle, view, view, view, view, None, False, tensors, rest)
    views = [view] * (13 + len(fields.TENSORS))
    for at in range(len(views)):
        with pytest.raises(TypeError, match="expected a view"):
            capi.backward(op.handle, (*views[:at], wrong, *views[at + 1 :]), False, None)
    with pytest.raises(TypeError, match=f"expected a tuple of {len(views)} views"):
        capi.backward(op.handle, tuple(views[1:]), False, None)
