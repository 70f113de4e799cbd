"""ONNX's own node cases of the operator Attention (package onnx, in the version of requirements-torch.txt) through libfa.attention:
its output Y within ONNX's tolerance. For bfloat16 that is less than a unit in the last place, and ONNX's own output has been
rounded to bfloat16 at every step: two units are allowed there."""
# needs: onnx

import collections

import ml_dtypes
import numpy as np
import onnx
from onnx.backend.test.case.node import _NodeTestCases as CASES
from onnx.backend.test.case.node import attention  # noqa: F401 (makes the cases)

import libfa

UNIT = float(ml_dtypes.finfo(ml_dtypes.bfloat16).eps)
PINNED = {"float32": 82, "float16": 6, "bfloat16": 5}  # cases by type, as the version has them


def heads(x, count):
    """(batch, heads, sequence, dim) of x, which may be (batch, sequence, heads * dim)."""
    return x if x.ndim == 4 else x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)


def outcome(case):
    """(Y as libfa computes it, Y as expected)."""
    (given, expected), node = case.data_sets[0], case.model.graph.node[0]
    inputs = dict(zip([name for name in node.input if name], given))
    x = [inputs.get(name) if name else None for name in [*node.input, *[""] * 7][:7]]
    q, k, v, mask, past_k, past_v, nonpad = x
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    q = heads(q, attributes.get("q_num_heads"))
    k, v = (heads(x, attributes.get("kv_num_heads")) for x in (k, v))
    if past_k is not None:
        k, v = np.concatenate([past_k, k], 2), np.concatenate([past_v, v], 2)
    batch, _, rows, _ = q.shape
    past = past_k.shape[2] if past_k is not None else 0
    first = np.full(batch, past, "i4") if nonpad is None else nonpad.astype("i4") - rows
    if mask is not None and mask.shape[-1] < k.shape[2]:
        ends = [(0, 0)] * (mask.ndim - 1) + [(0, k.shape[2] - mask.shape[-1])]
        mask = np.pad(mask, ends, constant_values=False if mask.dtype == bool else -np.inf)
    boolean = mask is not None and mask.dtype == bool
    out = libfa.attention(
        *(np.ascontiguousarray(x) for x in (q, k, v)),
        causal=bool(attributes.get("is_causal", 0)),
        window=(attributes.get("left_window_size", -1), attributes.get("right_window_size", -1)),
        softcap=attributes.get("softcap", 0.0),
        softmax_scale=attributes.get("scale"),
        mask=mask if boolean else None,
        bias=None if boolean else mask,
        seqused_k=None if nonpad is None else nonpad.astype("i4"),
        q_offset=first,
        layout="bhsd",
    )
    want = expected[0]
    return (out if want.ndim == 4 else out.transpose(0, 2, 1, 3).reshape(want.shape)), want


def test_every_case_of_attention():
    ours = [case for case in CASES if case.model.graph.node[0].op_type == "Attention"]
    counts = collections.Counter(case.data_sets[0][0][0].dtype.name for case in ours)
    assert counts == PINNED, "another version of onnx: pin its counts"
    for case in ours:
        out, want = outcome(case)
        assert out.dtype == want.dtype and out.shape == want.shape, case.name
        relative = 2 * UNIT if want.dtype.name == "bfloat16" else case.rtol
        np.testing.assert_allclose(out.astype("f8"), want.astype("f8"), rtol=relative, atol=case.atol, err_msg=case.name)
