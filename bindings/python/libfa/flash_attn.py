"""flash_attn's functions with the same names, arguments, defaults and shapes, on arrays of any library: replace

    from flash_attn import flash_attn_func          by          from libfa.flash_attn import flash_attn_func

Tensors of torch have gradients, in torch.compile as well; softmax_lse has one, too. deterministic is for gradients, as
upstream's is: False lets libfa add them up in any order, unless torch.use_deterministic_algorithms(True) has been called.

The differences: float32 works, and so does the CPU; dropout_p > 0 raises NotImplementedError, and so do gradients of
alibi_slopes, through pages and of flash_attn_with_kvcache; the logsumexp of a row without keys is -inf (flash_attn: inf).
return_attn_probs gives (out, softmax_lse, S_dmask) as flash_attn 2.8.3 does without dropout, where S_dmask is empty.
"""

from typing import Any, SupportsFloat, SupportsIndex

from . import errors, kvcache, lazy, scalars
from .attention import attention
from .libraries import adapter_of, of_torch, view
from .options import Array


_PAGED = {"the keys of the sequence": "the keys that the pages of its row of block_table hold"}


def _attention(names: dict[str, str], q: Any, k: Any, v: Any, function: Any = attention, **keywords: Any) -> Any:
    """libfa.attention, whose errors speak of the caller's arguments: names has theirs by libfa's."""
    try:
        return function(q, k, v, **keywords)
    except (errors.Error, BufferError, NotImplementedError, TypeError) as error:
        text = errors.renamed(str(error), {"window": "window_size", **names})
        kind = errors.InvalidCall if isinstance(error, errors.InvalidArgument) else type(error)
        raise kind(text) from None


def _forward(
    names: dict[str, str],
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float,
    return_attn_probs: bool,
    deterministic: bool,
    **keywords: Any,
) -> Any:
    if dropout_p:
        raise NotImplementedError(f"dropout_p: got {dropout_p}, and libfa has no dropout; 0.0 works")
    if of_torch(q):
        from .torch import attend

        keywords.update(function=attend, deterministic=deterministic)
    if not return_attn_probs:
        return _attention(names, q, k, v, **keywords)
    out, lse = _attention(names, q, k, v, return_lse=True, **keywords)
    if of_torch(q):
        return out, lse, q.new_empty(0)
    adapter = adapter_of(q)
    return out, lse, adapter.finish(adapter.empty(q, (0,), view(q, "q")[1]))


def _unpacked(x: Any, what: str, axis: int, count: int) -> tuple[Any, list[str]]:
    """The count arrays that x holds along axis, and how each is written."""
    if of_torch(x):
        lazy.require_strided(x, what)
    shape = tuple(getattr(x, "shape", ()))
    if len(shape) != axis + 3 or shape[axis] != count:
        lead = "(batch, sequence" if axis == 2 else "(total"
        raise errors.InvalidCall(f"{what}: got shape {shape}, expected {lead}, {count}, heads, dim)")
    index = (slice(None),) * axis
    parts = x.unbind(axis) if hasattr(x, "unbind") else [x[(*index, i)] for i in range(count)]  # torch: one gradient for all
    return parts, [f"{what}[{':, ' * axis}{i}]" for i in range(count)]


def flash_attn_func(
    q: Array,
    k: Array,
    v: Array,
    dropout_p: float = 0.0,
    softmax_scale: SupportsFloat | None = None,
    causal: bool = False,
    window_size: tuple[SupportsIndex, SupportsIndex] = (-1, -1),
    softcap: SupportsFloat = 0.0,
    alibi_slopes: Array | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """q (batch, queries, heads, dim), k and v (batch, keys, kv heads, dim) -> out, shaped as q. causal is aligned
    bottom-right; rows with no key are 0."""
    return _forward(
        {},
        q,
        k,
        v,
        dropout_p,
        return_attn_probs,
        deterministic,
        softmax_scale=softmax_scale,
        causal=causal,
        window=window_size,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
    )


def flash_attn_kvpacked_func(
    q: Array,
    kv: Array,
    dropout_p: float = 0.0,
    softmax_scale: SupportsFloat | None = None,
    causal: bool = False,
    window_size: tuple[SupportsIndex, SupportsIndex] = (-1, -1),
    softcap: SupportsFloat = 0.0,
    alibi_slopes: Array | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """kv (batch, keys, 2, kv heads, dim)."""
    (k, v), names = _unpacked(kv, "kv", 2, 2)
    return _forward(
        dict(zip("kv", names)),
        q,
        k,
        v,
        dropout_p,
        return_attn_probs,
        deterministic,
        softmax_scale=softmax_scale,
        causal=causal,
        window=window_size,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
    )


def flash_attn_qkvpacked_func(
    qkv: Array,
    dropout_p: float = 0.0,
    softmax_scale: SupportsFloat | None = None,
    causal: bool = False,
    window_size: tuple[SupportsIndex, SupportsIndex] = (-1, -1),
    softcap: SupportsFloat = 0.0,
    alibi_slopes: Array | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """qkv (batch, sequence, 3, heads, dim)."""
    (q, k, v), names = _unpacked(qkv, "qkv", 2, 3)
    return _forward(
        dict(zip("qkv", names)),
        q,
        k,
        v,
        dropout_p,
        return_attn_probs,
        deterministic,
        softmax_scale=softmax_scale,
        causal=causal,
        window=window_size,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
    )


def flash_attn_varlen_func(
    q: Array,
    k: Array,
    v: Array,
    cu_seqlens_q: Array,
    cu_seqlens_k: Array,
    max_seqlen_q: SupportsIndex,
    max_seqlen_k: SupportsIndex,
    dropout_p: float = 0.0,
    softmax_scale: SupportsFloat | None = None,
    causal: bool = False,
    window_size: tuple[SupportsIndex, SupportsIndex] = (-1, -1),
    softcap: SupportsFloat = 0.0,
    alibi_slopes: Array | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Array | None = None,
) -> Any:
    """q (total queries, heads, dim), k and v (total keys, kv heads, dim), or with block_table (pages, page size, kv heads,
    dim); cu_seqlens_* int32 (sequences + 1,)."""
    names, used = {}, None
    if block_table is not None:
        used = cu_seqlens_k[1:] - cu_seqlens_k[:-1]  # type: ignore[index]
        names = {"seqused_k": "(cu_seqlens_k[1:] - cu_seqlens_k[:-1])", **_PAGED}
    return _forward(
        names,
        q,
        k,
        v,
        dropout_p,
        return_attn_probs,
        deterministic,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k if used is None else None,
        seqused_k=used,
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
    q: Array,
    kv: Array,
    cu_seqlens_q: Array,
    cu_seqlens_k: Array,
    max_seqlen_q: SupportsIndex,
    max_seqlen_k: SupportsIndex,
    dropout_p: float = 0.0,
    softmax_scale: SupportsFloat | None = None,
    causal: bool = False,
    window_size: tuple[SupportsIndex, SupportsIndex] = (-1, -1),
    softcap: SupportsFloat = 0.0,
    alibi_slopes: Array | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """kv (total keys, 2, kv heads, dim)."""
    (k, v), names = _unpacked(kv, "kv", 1, 2)
    return _forward(
        dict(zip("kv", names)),
        q,
        k,
        v,
        dropout_p,
        return_attn_probs,
        deterministic,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        max_seqlen_q=max_seqlen_q,
        max_seqlen_k=max_seqlen_k,
        softmax_scale=softmax_scale,
        causal=causal,
        window=window_size,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
    )


def flash_attn_varlen_qkvpacked_func(
    qkv: Array,
    cu_seqlens: Array,
    max_seqlen: SupportsIndex,
    dropout_p: float = 0.0,
    softmax_scale: SupportsFloat | None = None,
    causal: bool = False,
    window_size: tuple[SupportsIndex, SupportsIndex] = (-1, -1),
    softcap: SupportsFloat = 0.0,
    alibi_slopes: Array | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """qkv (total, 3, heads, dim)."""
    (q, k, v), names = _unpacked(qkv, "qkv", 1, 3)
    one = dict.fromkeys(("cu_seqlens_q", "cu_seqlens_k"), "cu_seqlens") | dict.fromkeys(
        ("max_seqlen_q", "max_seqlen_k"), "max_seqlen"
    )
    return _forward(
        dict(zip("qkv", names)) | one,
        q,
        k,
        v,
        dropout_p,
        return_attn_probs,
        deterministic,
        cu_seqlens_q=cu_seqlens,
        cu_seqlens_k=cu_seqlens,
        max_seqlen_q=max_seqlen,
        max_seqlen_k=max_seqlen,
        softmax_scale=softmax_scale,
        causal=causal,
        window=window_size,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
    )


def flash_attn_with_kvcache(
    q: Array,
    k_cache: Array,
    v_cache: Array,
    k: Array | None = None,
    v: Array | None = None,
    rotary_cos: Array | None = None,
    rotary_sin: Array | None = None,
    cache_seqlens: SupportsIndex | Array | None = None,
    cache_batch_idx: Array | None = None,
    cache_leftpad: Array | None = None,
    block_table: Array | None = None,
    softmax_scale: SupportsFloat | None = None,
    causal: bool = False,
    window_size: tuple[SupportsIndex, SupportsIndex] = (-1, -1),
    softcap: SupportsFloat = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Array | None = None,
    num_splits: SupportsIndex = 0,
    return_softmax_lse: bool = False,
) -> Any:
    """q (batch, queries, heads, dim) over a cache (rows, length, kv heads, dim), or with block_table (pages, page size, ...).

    k and v, when given, are rotated (k) and written to the cache first, in place, at cache_seqlens (an int or int32 (batch,))
    of each sequence; q is rotated too: at its own positions when causal or local, else all at cache_seqlens. The cache holds
    cache_seqlens (+ new) keys then. Positions count cache_leftpad: it hides the first keys and moves no angle. On a GPU lengths and
    pages out of range cannot be reported.
    """
    used = kvcache.lengths(cache_seqlens, q)
    if (k is None) != (v is None):
        raise errors.InvalidCall("k and v: both or neither must be given")
    if (rotary_cos is None) != (rotary_sin is None) or (rotary_cos is not None and k is None):
        raise errors.InvalidCall("rotary_cos: expected rotary_sin, k and v as well")
    if k is not None:
        if used is None:
            raise errors.InvalidCall("cache_seqlens: expected where k and v are to be written")
        local = bool(scalars.mask_of(causal)) or scalars.pair(window_size, "window_size") != (-1, -1)
        q, used = kvcache.appended(
            q,
            (k_cache, v_cache),
            (k, v),
            (rotary_cos, rotary_sin),
            used,
            cache_batch_idx,
            block_table,
            local,
            rotary_interleaved,
        )
    names = {
        "k": "k_cache",
        "v": "v_cache",
        "seqused_k": "cache_seqlens",
        "kv_batch_idx": "cache_batch_idx",
        "leftpad_k": "cache_leftpad",
    }
    return _attention(
        names if block_table is None else names | _PAGED,
        q,
        k_cache,
        v_cache,
        seqused_k=used,
        kv_batch_idx=cache_batch_idx,
        leftpad_k=cache_leftpad,
        block_table=block_table,
        num_splits=num_splits,
        return_lse=return_softmax_lse,
        softmax_scale=softmax_scale,
        causal=causal,
        window=window_size,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
    )
