"""torch.nn.attention.varlen's functions by libfa, on CPUs too: with the same names, arguments, defaults and shapes.

    from libfa.torch_varlen import varlen_attn          # was: from torch.nn.attention.varlen import varlen_attn
"""

from __future__ import annotations

from typing import Any

import torch

from .errors import Error, InvalidArgument, renamed
from .torch import attention

_NAMES = {"q": "query", "k": "key", "v": "value", "cu_seqlens_q": "cu_seq_q", "cu_seqlens_k": "cu_seq_k"}
_NAMES |= {"max_seqlen_q": "max_q", "max_seqlen_k": "max_k", "softmax_scale": "scale", "window": "window_size"}


def varlen_attn(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_seq_q: torch.Tensor,
    cu_seq_k: torch.Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: Any = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    num_splits: int | None = None,
) -> Any:
    """query (all queries, heads, dim), key and value (all keys, kv heads, dim), or with block_table (pages, page size, kv heads,
    dim); cu_seq_q, cu_seq_k int32 (sequences + 1,) -> out, shaped as query, or with return_aux.lse (out, lse): lse (heads, all queries),
    float32, a natural logarithm.

    window_size (left, right) counts keys from the query's own place, the last query's being the last key; (-1, 0) is causal.
    num_splits=1 makes results independent of the batch. There are gradients, but for block_table, and in torch.compile as well.
    """
    if query.dim() == 3 and not enable_gqa and query.shape[-2] != key.shape[-2]:
        raise InvalidArgument(
            f"key: got {key.shape[-2]} heads, expected query's {query.shape[-2]}; enable_gqa=True allows fewer"
        )
    if block_table is not None and seqused_k is None:
        raise InvalidArgument("seqused_k: got None, expected the lengths of the sequences in block_table")
    given: dict[str, Any] = {"cu_seqlens_q": cu_seq_q, "max_seqlen_q": max_q, "window": tuple(window_size)}
    if seqused_k is not None:
        given["seqused_k"] = seqused_k
    if block_table is None:
        given.update(cu_seqlens_k=cu_seq_k, max_seqlen_k=max_k)
    else:
        given["block_table"] = block_table
    if scale is not None:
        given["softmax_scale"] = scale
    if num_splits == 1:
        given["batch_invariant"] = True
    elif num_splits:
        given["num_splits"] = num_splits
    try:
        return attention(query, key, value, return_lse=bool(return_aux is not None and return_aux.lse), **given)
    except Error as error:
        raise type(error)(renamed(str(error), _NAMES)) from None


def varlen_attn_out(
    out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_seq_q: torch.Tensor,
    cu_seq_k: torch.Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: Any = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    num_splits: int | None = None,
) -> Any:
    """varlen_attn() whose result is copied to out; without gradients."""
    with torch.no_grad():
        result = varlen_attn(
            query,
            key,
            value,
            cu_seq_q,
            cu_seq_k,
            max_q,
            max_k,
            return_aux=return_aux,
            scale=scale,
            window_size=window_size,
            enable_gqa=enable_gqa,
            seqused_k=seqused_k,
            block_table=block_table,
            num_splits=num_splits,
        )
        if isinstance(result, tuple):
            return out.copy_(result[0]), result[1]
        return out.copy_(result)
