"""libfa.merge: results over parts of the keys are the result over all of them, of any library's arrays; and its errors."""

import numpy as np
import pytest

import libfa
from libfa import capi

RNG = np.random.default_rng(7)
CUTS = (0, 7, 20, 50)


def parts_of(q, k, v, **options):
    """(outs, lses) of attention over the keys between CUTS."""
    pairs = [libfa.attention(q, k[:, a:b], v[:, a:b], return_lse=True, **options) for a, b in zip(CUTS, CUTS[1:])]
    return [out for out, _ in pairs], [lse for _, lse in pairs]


def arrays(dtype=np.float32, heads=4):
    q, k, v = (RNG.standard_normal((2, rows, heads, 16)).astype(dtype) for rows in (5, 50, 50))
    return q, k, v


def test_parts_of_the_keys_are_the_whole():
    q, k, v = arrays()
    whole, whole_lse = libfa.attention(q, k, v, return_lse=True)
    outs, lses = parts_of(q, k, v)
    out, lse = libfa.merge(outs, lses, return_lse=True)
    np.testing.assert_allclose(out, whole, atol=2e-6)
    np.testing.assert_allclose(lse, whole_lse, atol=2e-6)
    assert type(libfa.merge(outs, lses)) is np.ndarray
    merged = libfa.merge(
        [outs[0], libfa.merge(outs[1:], lses[1:])], [lses[0], libfa.merge(outs[1:], lses[1:], return_lse=True)[1]]
    )
    np.testing.assert_allclose(merged, whole, atol=2e-6)


def test_types_and_layouts():
    q, k, v = arrays(np.float16)
    whole = libfa.attention(q, k, v, out_dtype="float32")
    outs, lses = parts_of(q, k, v, out_dtype="float32")
    outs[1] = outs[1].astype(np.float16)
    out = libfa.merge(outs, lses, out_dtype="float16")
    assert out.dtype == np.float16
    np.testing.assert_allclose(out.astype(np.float32), whole, atol=2e-3)
    first = [np.ascontiguousarray(out.swapaxes(1, 2)) for out in outs]
    again = libfa.merge(first, lses, layout="bhsd", out_dtype="float16")
    np.testing.assert_array_equal(again.swapaxes(1, 2), out)
    np.testing.assert_array_equal(
        libfa.merge([o[:, :, ::-1] for o in outs], [x[:, ::-1] for x in lses], out_dtype="float16"), out[:, :, ::-1]
    )


def test_packed_results():
    outs = [RNG.standard_normal((9, 3, 8)).astype(np.float32) for _ in range(2)]
    lses = [RNG.standard_normal((3, 9)).astype(np.float32) for _ in range(2)]
    out, lse = libfa.merge(outs, lses, return_lse=True)
    assert out.shape == (9, 3, 8) and lse.shape == (3, 9)
    weights = np.exp(lses - np.logaddexp(*lses))
    np.testing.assert_allclose(out, sum(w.T[..., None] * o for w, o in zip(weights, outs)), atol=1e-6)
    np.testing.assert_allclose(lse, np.logaddexp(*lses), atol=1e-6)
    two = libfa.merge(outs, [x / np.log(np.float32(2)) for x in lses], base_2=True)
    np.testing.assert_allclose(two, out, atol=1e-6)


def test_in_place_and_rows_of_a_mask():
    q, k, v = arrays()
    outs, lses = parts_of(q, k, v)
    mask = RNG.integers(0, 2, (2, 4, 5)).astype(bool)
    expected = np.where(mask.swapaxes(1, 2)[..., None], libfa.merge(outs, lses), outs[0])
    got = libfa.merge(outs, lses, mask=mask, out=outs[0], lse=lses[0])
    assert got is outs[0]
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_parts_without_keys():
    outs = [np.full((1, 1, 1, 4), np.nan, np.float32), np.ones((1, 1, 1, 4), np.float32)]
    lses = [np.full((1, 1, 1), -np.inf, np.float32), np.zeros((1, 1, 1), np.float32)]
    np.testing.assert_array_equal(libfa.merge(outs, lses), outs[1])
    out, lse = libfa.merge(outs[:1], lses[:1], return_lse=True)
    assert (out == 0).all() and (lse == -np.inf).all()


def test_an_op_of_its_own():
    out, lse = np.ones((1, 1, 1, 4), np.float32), np.zeros((1, 1, 1, 1), np.float32)
    tensors = [capi.fa_tensor() for _ in range(2)]
    for tensor, array in zip(tensors, (out, lse)):
        tensor.data, tensor.dtype, tensor.shape, tensor.stride = array.ctypes.data, capi.FA_F32, array.shape, (4, 4, 4, 1)
    args = capi.fa_merge_args()
    args.outs, args.lses, args.num_parts = int(tensors[0].this), int(tensors[1].this), 1
    result = np.zeros_like(out)
    args.out = (result.ctypes.data, capi.FA_F32, (1, 1, 1, 4), (4, 4, 4, 1))
    with libfa.Op(dtype_q="float32", head_dim=4) as op:
        assert op.merge_workspace_size(args) == 0
        op.merge(args)
    np.testing.assert_array_equal(result, out)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda o, x: o.clear() or x.clear(), "outs and lses: got 0 and 0 arrays, expected as many of each, 1 to 32"),
        (lambda o, x: x.pop(), "outs and lses: got 2 and 1 arrays, expected as many of each, 1 to 32"),
        (lambda o, x: (o.extend([o[0]] * 31), x.extend([x[0]] * 31)), "outs and lses: got 33 and 33 arrays"),
        (lambda o, x: o.__setitem__(1, o[1][:, :2]), "outs[1] has 2 queries; outs[0] has 3"),
        (lambda o, x: o.__setitem__(1, o[1][..., :4]), "outs[1] has head dimension 4; outs[0] has 8"),
        (lambda o, x: x.__setitem__(0, x[0][:, :1]), "lses[0] has 1 head; outs[0] has 2"),
        (lambda o, x: o.__setitem__(1, o[1][0]), "outs[1]: got shape (3, 2, 8)"),
        (lambda o, x: o.__setitem__(0, o[0].astype(np.int32)), "outs[0] has dtype int32; expected float32, float16 or bfloat16"),
        (lambda o, x: o.__setitem__(1, o[1].astype(bool)), "outs[1] has dtype bool; expected float32, float16 or bfloat16"),
        (lambda o, x: x.__setitem__(1, x[1].astype(np.float16)), "lses[1] has dtype float16; expected float32"),
        (lambda o, x: o.__setitem__(1, "x"), "outs[1]"),
    ],
)  # fmt: skip
def test_errors(change, text):
    outs, lses = [np.ones((1, 3, 2, 8), np.float32) for _ in range(2)], [np.zeros((1, 2, 3), np.float32) for _ in range(2)]
    change(outs, lses)
    with pytest.raises((libfa.InvalidArgument, TypeError)) as error:
        libfa.merge(outs, lses)
    assert text in str(error.value)


def test_errors_of_results():
    outs, lses = [np.ones((1, 3, 2, 8), np.float32) for _ in range(2)], [np.zeros((1, 2, 3), np.float32) for _ in range(2)]
    for options, text in (
        (dict(out=outs[1]), "out overlaps outs[1]"),
        (dict(out=np.ones((1, 3, 2, 4), np.float32)), "out has head dimension 4"),
        (dict(out=np.ones((1, 4, 2, 8), np.float32)), "out has 4"),
        (dict(mask=np.ones((1, 2, 3), np.int32)), "mask: got dtype int32, expected bool"),
        (dict(mask=np.ones((1, 2, 4), bool)), "mask has 4"),
        (dict(layout="hbsd"), "layout: got 'hbsd'"),
        (dict(out=outs[0], out_dtype="float16"), "out_dtype: got float16, expected out's float32"),
    ):
        with pytest.raises(libfa.InvalidArgument) as error:
            libfa.merge(outs, lses, **options)
        assert text in str(error.value), str(error.value)
