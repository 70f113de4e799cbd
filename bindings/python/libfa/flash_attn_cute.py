"""FlashAttention-4's functions on tensors of torch, on CPUs too, with its names, arguments, defaults and results: replace

    from flash_attn.cute import flash_attn_func          by          from libfa.flash_attn_cute import flash_attn_func

They return (out, lse), where lse is None unless it was asked for or a gradient is needed. libfa chooses the number of splits where
num_splits is 1, upstream's default. Functions of the caller's own (score_mod, mask_mod), block sparsity, gathered keys and qv raise
libfa.Unsupported, a NotImplementedError, which names the argument.
"""

from __future__ import annotations

from typing import Any

import torch

from .errors import Error, InvalidArgument, Unsupported, renamed
from .torch import attention

_NAMES = {"block_table": "page_table", "sinks": "learnable_sink", "window": "window_size"}


def _refuse(**given: Any) -> None:
    for name, x in given.items():
        if x is not None:
            raise Unsupported(f"{name}: got a {type(x).__name__}, expected None: libfa does not support it")


def _side(size: int | None) -> int:
    if size is not None and size < 0:
        raise InvalidArgument(f"window_size: got {size}, expected None, which leaves a side open, or 0 and more")
    return -1 if size is None else size


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, return_lse: bool, window_size: Any, num_splits: int, **options: Any
) -> tuple[torch.Tensor, torch.Tensor | None]:
    given = {name: x for name, x in options.items() if x is not None}
    given["window"] = tuple(map(_side, window_size))
    given["num_splits"] = 0 if num_splits == 1 else num_splits
    wants_lse = return_lse or (torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v)))
    try:
        result: Any = attention(q, k, v, return_lse=wants_lse, **given)
    except Error as error:
        raise type(error)(renamed(str(error), _NAMES)) from None
    return result if wants_lse else (result, None)


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    qv: torch.Tensor | None = None,
    gather_kv_indices: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = (None, None),
    learnable_sink: torch.Tensor | None = None,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,
    score_mod: Any = None,
    score_mod_bwd: Any = None,
    mask_mod: Any = None,
    aux_tensors: list[Any] | None = None,
    aux_scalars: tuple[Any, ...] | None = None,
    block_sparse_tensors: Any = None,
    block_sparse_tensors_bwd: Any = None,
    return_lse: bool = False,
    gather_bwd_recompute_p: bool = False,
    gather_bwd_token_chunk: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """q (batch, queries, heads, dim), k and v (batch, keys, kv heads, dim) -> (out, shaped as q, lse (batch, heads, queries) or None).
    causal is aligned bottom-right; window_size (left, right) leaves a side open by None; learnable_sink (heads,)."""
    _refuse(
        qv=qv,
        gather_kv_indices=gather_kv_indices,
        score_mod=score_mod,
        mask_mod=mask_mod,
        block_sparse_tensors=block_sparse_tensors,
    )
    return _attend(
        q,
        k,
        v,
        return_lse,
        window_size,
        num_splits,
        softmax_scale=softmax_scale,
        causal=causal,
        sinks=learnable_sink,
        softcap=softcap,
        deterministic=deterministic,
    )


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    qv: torch.Tensor | None = None,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k: torch.Tensor | None = None,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    min_seqlen_k: int | None = None,
    seqused_q: torch.Tensor | None = None,
    seqused_k: torch.Tensor | None = None,
    gather_kv_indices: torch.Tensor | None = None,
    page_table: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = (None, None),
    learnable_sink: torch.Tensor | None = None,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,
    score_mod: Any = None,
    score_mod_bwd: Any = None,
    mask_mod: Any = None,
    block_sparse_tensors: Any = None,
    aux_tensors: list[Any] | None = None,
    aux_scalars: tuple[Any, ...] | None = None,
    return_lse: bool = False,
    scheduler_metadata: Any = None,
    seqlen_k_per_split: int | None = None,
    disable_scheduler_metadata: bool = False,
    gather_bwd_recompute_p: bool = False,
    gather_bwd_token_chunk: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """q (all queries, heads, dim) with cu_seqlens_q, int32 (sequences + 1,), or (batch, queries, heads, dim); k and v alike, or with
    page_table, int32 (sequences, pages), (pages, page size, kv heads, dim); seqused_q, seqused_k int32, one a sequence -> (out, lse),
    lse (heads, all queries) or (batch, heads, queries), or None."""
    _refuse(
        qv=qv,
        gather_kv_indices=gather_kv_indices,
        score_mod=score_mod,
        mask_mod=mask_mod,
        block_sparse_tensors=block_sparse_tensors,
    )
    return _attend(
        q,
        k,
        v,
        return_lse,
        window_size,
        num_splits,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        max_seqlen_q=max_seqlen_q if cu_seqlens_q is not None else None,
        max_seqlen_k=max_seqlen_k if cu_seqlens_k is not None else None,
        seqused_q=seqused_q,
        seqused_k=seqused_k,
        block_table=page_table,
        softmax_scale=softmax_scale,
        causal=causal,
        sinks=learnable_sink,
        softcap=softcap,
        deterministic=deterministic,
    )
