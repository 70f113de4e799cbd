"""libfa.backward: gradients of numpy's arrays against finite differences of the mathematics in double precision."""

import inspect

import header
import numpy as np
import pytest
import reference
from conftest import SOURCE

import libfa
from libfa import capi, options

RNG = np.random.default_rng(1)
Q, K, V = (RNG.standard_normal(shape).astype("f4") for shape in ((2, 3, 4, 8), (2, 5, 2, 8), (2, 5, 2, 6)))
BIAS, SINKS = RNG.standard_normal((1, 4, 1, 5)).astype("f4"), RNG.standard_normal(4).astype("f4")
SLOPES, MASK = RNG.random(4).astype("f4"), RNG.random((3, 5)) < 0.7
DOUT, DLSE = RNG.standard_normal((2, 3, 4, 6)).astype("f4"), RNG.standard_normal((2, 4, 3)).astype("f4")
RENAMED = {"softmax_scale": "scale", "alibi_slopes": "slopes"}


def numeric(inputs, name, given):
    """Central differences of sum(out DOUT) + sum(lse DLSE) by each element of an input."""
    x = inputs[name].astype("f8")
    found = np.empty_like(x)
    for at in np.ndindex(x.shape):
        sums = []
        for step in (1e-5, -1e-5):
            moved = x.copy()
            moved[at] += step
            out, lse = reference.attention(**{**inputs, name: moved}, **given)
            sums.append((out * DOUT).sum() + (lse * DLSE)[np.isfinite(lse)].sum())
        found[at] = (sums[0] - sums[1]) / 2e-5
    return found


def passes(given, **more):
    """out, lse and the gradients."""
    out, lse = libfa.attention(Q, K, V, return_lse=True, **given)
    return out, lse, libfa.backward(Q, K, V, out, lse, DOUT, **given, **more)


@pytest.mark.parametrize(
    "given",
    [
        dict(causal=True, softmax_scale=0.4, softcap=2.0),
        dict(bias=BIAS, sinks=SINKS, mask=MASK, window=(2, 1), alibi_slopes=SLOPES),
    ],
    ids=["softcap", "bias and sinks"],
)
def test_finite_differences(given):
    names = ["q", "k", "v", *(name for name in ("bias", "sinks") if name in given)]
    *_, found = passes(given, dlse=DLSE, **{f"d{name}": True for name in names})
    inputs = dict(q=Q, k=K, v=V) | {name: given[name] for name in names[3:]}
    rest = {RENAMED.get(name, name): x for name, x in given.items() if name not in inputs}
    for name in names:
        gradient = getattr(found, f"d{name}")
        assert gradient.shape == inputs[name].shape and gradient.dtype == inputs[name].dtype
        assert abs(gradient - numeric(inputs, name, rest)).max() < 2e-5, name
    assert [x is None for x in found[3:]] == [name not in names for name in ("bias", "sinks")]


def test_only_what_is_asked_for():
    found = passes({}, dq=False, dv=None)[2]
    assert found.dq is None and found.dv is None and (found.dk == passes({})[2].dk).all()


def test_layouts_and_packed_sequences():
    *_, want = passes({})
    turned = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (Q, K, V, DOUT)]
    out, lse = libfa.attention(*turned[:3], layout="bhsd", return_lse=True)
    found = libfa.backward(*turned[:3], out, lse, turned[3], layout="bhsd")
    assert all((x.transpose(0, 2, 1, 3) == y).all() for x, y in zip(found[:3], want))
    ends = dict(cu_seqlens_q=[0, 3, 6], cu_seqlens_k=[0, 5, 10])
    packed = [np.concatenate([*x, np.full_like(x[0], np.nan)]) for x in (Q, K, V, DOUT)]  # rows that no sequence uses
    out, lse = libfa.attention(*packed[:3], return_lse=True, **ends)
    found = libfa.backward(*packed[:3], out, lse, packed[3], **ends)
    for x, y in zip(found, want[:3]):
        assert (x[: -y.shape[1]].reshape(y.shape) == y).all() and not x[-y.shape[1] :].any()


def test_arrays_of_ones_own():
    out, lse, want = passes({})
    whole = np.zeros((2, 5, 4, 8), "f4")
    dk, dv = whole[:, :, :2], whole[:, :, 2:, :6]  # slices of one array
    found = libfa.backward(Q, K, V, out, lse, DOUT, dq=False, dk=dk, dv=dv, accumulate=["dk", "dv"])
    assert found.dk is dk and (dk == want.dk).all() and (dv == want.dv).all()
    delta = (out * DOUT).sum(-1).transpose(0, 2, 1).copy()
    libfa.backward(Q, K, V, None, lse, DOUT, delta=delta, dq=False, dk=dk, dv=dv, accumulate={"dk"})
    assert abs(dk - 2 * want.dk).max() < 1e-5 and abs(dv - want.dv).max() < 1e-6
    half = [x.astype("f2") for x in (Q, K, V)]
    out, lse = libfa.attention(*half, return_lse=True)
    wide = np.empty_like(Q)
    found = libfa.backward(*half, out, lse, DOUT, dq=wide)
    assert found.dq is wide and found.dk.dtype == np.float16 and abs(wide - want.dq).max() < 1e-2


def test_an_op_of_ones_own():
    out, lse, want = passes({})
    args, dq = capi.fa_backward_args(), np.empty_like(Q)
    for name, x in dict(q=Q, k=K, v=V, out=out, lse=lse[..., None], dout=DOUT, dq=dq).items():
        setattr(args, name, (x.__array_interface__["data"][0], capi.FA_F32, x.shape, tuple(s // 4 for s in x.strides)))
    with libfa.Op(dtype_q="float32", head_dim=8, head_dim_v=6) as op:
        memory = np.empty(op.backward_workspace_size(args) + 256, "u1")
        args.workspace = memory.__array_interface__["data"][0] + 255 & ~255
        args.workspace_size = memory.size - 256
        op.backward(args)
    assert (dq == want.dq).all()


FINE = dict(q=Q, k=K, v=V, out=np.zeros_like(DOUT), lse=np.zeros_like(DLSE), dout=DOUT)
READ_ONLY = np.zeros_like(Q)
READ_ONLY.flags.writeable = False
REFUSED = {
    "no lse": (dict(lse=None), TypeError, "lse: a NoneType is no array"),
    "lse of two dimensions": (dict(lse=FINE["lse"][0]), ValueError, "lse has batch size 1; q has 2"),
    "lse of one": (dict(lse=FINE["lse"][0, 0]), ValueError, "lse: got shape (3,), expected (batch, heads, queries)"),
    "lse of halves": (dict(lse=FINE["lse"].astype("f2")), ValueError, "lse has dtype float16; expected float32"),
    "dlse of another shape": (dict(dlse=DLSE[:1]), ValueError, "dlse has batch size 1; q has 2"),
    "delta of another shape": (dict(delta=DLSE[:, :1]), ValueError, "delta has 1 head; q has 4"),
    "dout of another shape": (dict(dout=DOUT[:, :2]), ValueError, "dout has 2 queries; q has 3"),
    "dout of doubles": (dict(dout=DOUT.astype("f8")), ValueError, "dout: got dtype float64"),
    "dout of three dimensions": (dict(dout=DOUT[0]), ValueError, "dout: got shape (3, 4, 6)"),
    "k and v of two types": (dict(k=K.astype("f2")), ValueError, "v: got float32, expected k's float16"),
    "neither out nor delta": (dict(out=None), ValueError, "delta"),
    "an unknown layout": (dict(layout="sbhd"), ValueError, "layout: got 'sbhd'"),
    "dq that is read-only": (dict(dq=READ_ONLY), ValueError, "dq: is read-only"),
    "dq of another shape": (dict(dq=np.empty_like(K)), ValueError, "dq has 5 queries; q has 3"),
    "dq that overlaps": (dict(dq=Q), ValueError, "dq overlaps q"),
    "dbias without bias": (dict(dbias=True), ValueError, "dbias: got True, expected bias to be given"),
    "dsinks without sinks": (dict(dsinks=np.empty(4, "f4")), ValueError, "dsinks without sinks"),
    "dbias of another shape": (dict(bias=BIAS, dbias=np.empty((2, 5), "f4")), ValueError, "dbias has 2 queries; expected 1 or 3"),
    "accumulate of an unknown name": (dict(accumulate=["dx"]), ValueError, "accumulate: got 'dx', expected some of dq, dk"),
    "accumulate into nothing": (dict(accumulate="dq"), ValueError, "accumulate: got 'dq', expected dq to be an array"),
    "accumulate into halves": (dict(accumulate=["dq"], dq=np.zeros(Q.shape, "f2")), ValueError, "dq is of float16; expected float32"),
    "pages": (dict(block_table=np.zeros((2, 1), "i4")), TypeError, "unexpected keyword argument 'block_table'"),
    "a length no field holds": (dict(max_seqlen_q=2**80), ValueError, "max_seqlen_q: got 1208925819614629174706176"),
    "indices out of range": (dict(seqused_k=[9, 9]), ValueError, "seqused_k"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_bad_input(what):
    given, kind, text = REFUSED[what]
    with pytest.raises(kind) as error:
        libfa.backward(**{**FINE, **given})
    assert text in str(error.value), str(error.value)


def test_every_field_has_a_keyword():
    """A field that is new in fa_backward_args fails here until it is bound."""
    keywords = {*inspect.signature(libfa.backward).parameters, *options.GradientOptions.__annotations__}
    by_other_means = {"struct_size", "reserved", "num_seqs", "workspace_size", "block_table"}  # (the last must be absent)
    fields = {field.name for field in header.read(SOURCE / "include" / "fa.h").structs["fa_backward_args"]}
    assert fields - by_other_means - keywords == set()
    bits = {name for name in capi.__dict__ if name.startswith("FA_ACCUMULATE_")}
    assert bits == {f"FA_ACCUMULATE_{name.upper()}" for name in libfa.Gradients._fields}
