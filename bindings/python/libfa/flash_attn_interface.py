"""flash_attn.flash_attn_interface on tensors of torch: the functions of libfa.flash_attn, and those of flash_attn's own that
frameworks call (Megatron-LM, TransformerEngine, DeepSpeed, ring-flash-attention), with their names, arguments and results:

    from flash_attn.flash_attn_interface import _flash_attn_forward      by
    from libfa.flash_attn_interface import _flash_attn_forward

They have no gradients: whoever calls them passes the results of _flash_attn_forward to _flash_attn_backward. S_dmask is empty,
and rng_state is of a generator that is never used, as dropout_p is 0. softmax_lse of a row without keys is -inf.
"""

from __future__ import annotations

from typing import Any

import torch

from . import backward, flash_attn
from .flash_attn import (
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
    flash_attn_with_kvcache,
)

__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
]

Forward = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def _flash_attn_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float,
    softmax_scale: float | None,
    causal: bool,
    window_size_left: int = -1,
    window_size_right: int = -1,
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    return_softmax: bool = False,
) -> Forward:
    """q (batch, queries, heads, dim), k and v (batch, keys, kv heads, dim) -> out, shaped as q, softmax_lse (batch, heads,
    queries) in float32, S_dmask, rng_state (2) in int64."""
    return _forward(
        q,
        k,
        v,
        dropout_p,
        softmax_scale=softmax_scale,
        causal=causal,
        window=(window_size_left, window_size_right),
        softcap=softcap,
        alibi_slopes=alibi_slopes,
    )


def _flash_attn_varlen_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float,
    softmax_scale: float | None,
    causal: bool,
    window_size_left: int = -1,
    window_size_right: int = -1,
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    return_softmax: bool = False,
    block_table: torch.Tensor | None = None,
    leftpad_k: torch.Tensor | None = None,
    seqused_k: torch.Tensor | None = None,
    zero_tensors: bool = False,
) -> Forward:
    """q (total queries, heads, dim), k and v (total keys, kv heads, dim), cu_seqlens_* (batch + 1) -> as _flash_attn_forward,
    softmax_lse (heads, total queries). With a block_table (batch, pages a sequence), k and v are (pages, page size, kv heads,
    dim) and the last of a sequence's keys is that of cu_seqlens_k."""
    lengths: dict[str, Any] = {"cu_seqlens_k": cu_seqlens_k, "leftpad_k": leftpad_k, "seqused_k": seqused_k}
    if block_table is not None:
        used = seqused_k if seqused_k is not None else cu_seqlens_k.diff()
        lengths = {"block_table": block_table, "leftpad_k": leftpad_k, "seqused_k": used}
    return _forward(
        q,
        k,
        v,
        dropout_p,
        **lengths,
        cu_seqlens_q=cu_seqlens_q,
        max_seqlen_q=max_seqlen_q,
        max_seqlen_k=max_seqlen_k,
        softmax_scale=softmax_scale,
        causal=causal,
        window=(window_size_left, window_size_right),
        softcap=softcap,
        alibi_slopes=alibi_slopes,
    )


def _flash_attn_backward(
    dout: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    softmax_lse: torch.Tensor,
    dq: torch.Tensor | None,
    dk: torch.Tensor | None,
    dv: torch.Tensor | None,
    dropout_p: float,
    softmax_scale: float | None,
    causal: bool,
    window_size_left: int = -1,
    window_size_right: int = -1,
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    rng_state: torch.Tensor | None = None,
) -> torch.Tensor:
    """Writes the gradients of q, k and v into dq, dk and dv, those that are given, and returns softmax_d, the dot products of the
    rows of dout and out, shaped as softmax_lse. dout, out and softmax_lse are those of _flash_attn_forward."""
    softmax_d = _row_dots(dout, out)
    return _backward(
        (q, k, v),
        (dq, dk, dv),
        dropout_p,
        lse=softmax_lse,
        dout=dout,
        delta=softmax_d,
        softmax_scale=softmax_scale,
        causal=causal,
        window=(window_size_left, window_size_right),
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        deterministic=deterministic,
    )


def _flash_attn_varlen_backward(
    dout: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    softmax_lse: torch.Tensor,
    dq: torch.Tensor | None,
    dk: torch.Tensor | None,
    dv: torch.Tensor | None,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float,
    softmax_scale: float | None,
    causal: bool,
    window_size_left: int = -1,
    window_size_right: int = -1,
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    rng_state: torch.Tensor | None = None,
    zero_tensors: bool = False,
) -> torch.Tensor:
    """_flash_attn_backward of packed sequences, shaped as in _flash_attn_varlen_forward. Rows that no sequence has keep
    the contents of dq, dk and dv, or are 0 with zero_tensors."""
    for gradient in (dq, dk, dv) if zero_tensors else ():
        if gradient is not None:
            gradient.zero_()
    softmax_d = _row_dots(dout, out)
    return _backward(
        (q, k, v),
        (dq, dk, dv),
        dropout_p,
        lse=softmax_lse,
        dout=dout,
        delta=softmax_d,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        max_seqlen_q=max_seqlen_q,
        max_seqlen_k=max_seqlen_k,
        softmax_scale=softmax_scale,
        causal=causal,
        window=(window_size_left, window_size_right),
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        deterministic=deterministic,
    )


def _forward(q: Any, k: Any, v: Any, dropout_p: float, **given: Any) -> Forward:
    with torch.no_grad():
        out, lse, dmask = flash_attn._forward({}, q, k, v, dropout_p, True, True, **given)
    return out, lse, dmask, torch.empty(2, dtype=torch.int64, device=q.device)


def _backward(inputs: Any, gradients: Any, dropout_p: float, **given: Any) -> torch.Tensor:
    if dropout_p:
        raise NotImplementedError(f"dropout_p: got {dropout_p}, and libfa has no dropout; 0.0 works")
    for name, gradient in zip("qkv", gradients):
        given[f"d{name}"] = False if gradient is None else gradient
    q, k, v = inputs
    with torch.no_grad():
        flash_attn._attention({"lse": "softmax_lse", "delta": "out"}, q, k, v, function=backward, out=None, **given)
    softmax_d: torch.Tensor = given["delta"]
    return softmax_d


def _row_dots(dout: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        dots: torch.Tensor = (dout.float() * out.float()).sum(-1).transpose(-2, -1)
    return dots
