"""Floating-point operations of the operators of torch_operators.py, as torch.utils.flop_counter counts torch's operators:
two for each multiplication and addition of the matrix products, whatever a mask leaves out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import register_flop_formula

from .torch_operators import TENSORS


def _pairs(q: Any, k: Any, tensors: Any, keywords: Any) -> int:
    """Query heads' rows times keys, over all sequences."""
    given = dict(zip(TENSORS, tensors))
    rows, heads = (q.shape[-3], q.shape[-2]) if keywords.get("layout", "bshd") == "bshd" else (q.shape[-2], q.shape[-3])
    of_q, of_k = given.get("cu_seqlens_q"), given.get("cu_seqlens_k")
    if of_q is None:
        table = given.get("block_table")
        if table is not None:
            keys = table.shape[-1] * k.shape[-3]
        else:
            keys = k.shape[-3] if keywords.get("layout", "bshd") == "bshd" else k.shape[-2]
        return int(q.shape[0] * heads * rows * keys)
    if of_k is None or any(isinstance(x, torch._subclasses.FakeTensor) or x.is_meta for x in (of_q, of_k)):
        return int(heads * rows * (keywords.get("max_seqlen_k", 0) or k.shape[-3]))  # an upper bound, without their contents
    return int(heads * (of_q.diff().long() * of_k.diff().long()).sum())


@register_flop_formula(torch.ops.libfa.attention, get_raw=True)  # type: ignore[untyped-decorator]
def attention(q: Any, k: Any, v: Any, *tensors: Any, out_val: Any = None, **keywords: Any) -> int:
    return int(2 * _pairs(q, k, tensors, keywords) * (q.shape[-1] + v.shape[-1]))


@register_flop_formula(torch.ops.libfa.attention_backward, get_raw=True)  # type: ignore[untyped-decorator]
def gradients(
    dout: Any, dlse: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, *tensors: Any, out_val: Any = None, **keywords: Any
) -> int:
    """S, dQ and dK have the queries' width, dP and dV the values'."""
    return int(2 * _pairs(q, k, tensors, keywords) * (3 * q.shape[-1] + 2 * v.shape[-1]))
