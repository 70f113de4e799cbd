"""flash_attn's functions with the same names, arguments, defaults and shapes, on arrays of any library: replace

    from flash_attn import flash_attn_func          by          from libfa.flash_attn import flash_attn_func

What differs: float32 works, and so does the CPU; dropout_p > 0 and gradients raise NotImplementedError; deterministic
changes nothing (the forward pass always is); the logsumexp of a row without keys is -inf (flash_attn: inf).
return_attn_probs gives (out, softmax_lse, S_dmask) as flash_attn 2.8.3 does without dropout, where S_dmask is empty.
"""

from typing import Any

from . import kvcache
from .attention import attention
from .libraries import adapter_of, view


def _attention(q: Any, k: Any, v: Any, dropout_p: float, return_attn_probs: bool, **keywords: Any) -> Any:
    if dropout_p:
        raise NotImplementedError(f"dropout_p: got {dropout_p}, and libfa has no dropout; 0.0 works")
    if not return_attn_probs:
        return attention(q, k, v, **keywords)
    out, lse = attention(q, k, v, return_lse=True, **keywords)
    adapter = adapter_of(q)
    return out, lse, adapter.finish(adapter.empty(q, (0,), view(q, "q")[1]))


def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """q (batch, queries, heads, dim), k and v (batch, keys, kv heads, dim) -> out, shaped as q. causal is aligned
    bottom-right; rows with no key are 0."""
    return _attention(
        q,
        k,
        v,
        dropout_p,
        return_attn_probs,
        softmax_scale=softmax_scale,
        causal=causal,
        window=window_size,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
    )


def flash_attn_kvpacked_func(
    q: Any,
    kv: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """kv (batch, keys, 2, kv heads, dim)."""
    return flash_attn_func(
        q,
        kv[:, :, 0],
        kv[:, :, 1],
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )


def flash_attn_qkvpacked_func(
    qkv: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """qkv (batch, sequence, 3, heads, dim)."""
    return flash_attn_func(
        qkv[:, :, 0],
        qkv[:, :, 1],
        qkv[:, :, 2],
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )


def flash_attn_varlen_func(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Any = None,
) -> Any:
    """q (total queries, heads, dim), k and v (total keys, kv heads, dim), or with block_table (pages, page size, kv heads,
    dim); cu_seqlens_* int32 (sequences + 1,)."""
    packed = block_table is None
    return _attention(
        q,
        k,
        v,
        dropout_p,
        return_attn_probs,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k if packed else None,
        seqused_k=None if packed else cu_seqlens_k[1:] - cu_seqlens_k[:-1],
        block_table=block_table,
        max_seqlen_q=max_seqlen_q,
        max_seqlen_k=max_seqlen_k,
        softmax_scale=softmax_scale,
        causal=causal,
        window=window_size,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
    )


def flash_attn_varlen_kvpacked_func(
    q: Any,
    kv: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """kv (total keys, 2, kv heads, dim)."""
    return flash_attn_varlen_func(
        q,
        kv[:, 0],
        kv[:, 1],
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )


def flash_attn_varlen_qkvpacked_func(
    qkv: Any,
    cu_seqlens: Any,
    max_seqlen: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """qkv (total, 3, heads, dim)."""
    return flash_attn_varlen_func(
        qkv[:, 0],
        qkv[:, 1],
        qkv[:, 2],
        cu_seqlens,
        cu_seqlens,
        max_seqlen,
        max_seqlen,
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )


def flash_attn_with_kvcache(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    k: Any = None,
    v: Any = None,
    rotary_cos: Any = None,
    rotary_sin: Any = None,
    cache_seqlens: Any = None,
    cache_batch_idx: Any = None,
    cache_leftpad: Any = None,
    block_table: Any = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Any = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Any:
    """q (batch, queries, heads, dim) over a cache (rows, length, kv heads, dim), or with block_table (pages, page size, ...).

    k and v, when given, are rotated (k) and written to the cache first, in place, at cache_seqlens (an int or int32 (batch,))
    of each sequence; q is rotated too: at its own positions when causal or local, else all at cache_seqlens. The cache holds
    cache_seqlens (+ new) keys then. Positions count cache_leftpad: it hides the first keys and moves no angle. Append and
    rotation are done by the arrays' own library.
    """
    batch, rows = q.shape[:2]
    used = kvcache.lengths(cache_seqlens, batch, q)
    if (k is None) != (v is None):
        raise ValueError("k and v: both or neither must be given")
    if k is not None and used is None:
        raise ValueError("cache_seqlens: expected where k and v are to be written")
    if rotary_cos is not None:
        if k is None or rotary_sin is None:
            raise ValueError("rotary_cos: expected rotary_sin, k and v as well")
        local = causal or tuple(window_size) != (-1, -1)
        at_q = used[:, None] + (kvcache.arange(rows, q) if local else 0)
        q = kvcache.rotated(q, rotary_cos, rotary_sin, at_q, rotary_interleaved)
        at_k = used[:, None] + kvcache.arange(k.shape[1], k)
        k = kvcache.rotated(k, rotary_cos, rotary_sin, at_k, rotary_interleaved)
    if k is not None:
        kvcache.append(k_cache, k, used, cache_batch_idx, block_table)
        kvcache.append(v_cache, v, used, cache_batch_idx, block_table)
        used = used + k.shape[1]
    return attention(
        q,
        k_cache,
        v_cache,
        seqused_k=used,
        kv_batch_idx=cache_batch_idx,
        leftpad_k=cache_leftpad,
        block_table=block_table,
        softmax_scale=softmax_scale,
        causal=causal,
        window=window_size,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        num_splits=num_splits,
        return_lse=return_softmax_lse,
    )
