"""The part of flash_attn_with_kvcache before its attention: new keys and values are written to the cache, and rotated as
flash_attn rotates them. Errors name its arguments.
"""

import sys
from typing import Any

from .append import append
from .errors import Error, InvalidArgument, InvalidCall, renamed
from .libraries import view
from .scalars import integer


def _library(x: Any) -> Any:
    name = type(x).__module__.partition(".")[0]
    if name not in ("numpy", "torch", "cupy"):
        raise NotImplementedError(
            f"cache_seqlens: a {type(x).__name__}, expected an array of numpy, torch or CuPy"
        )
    return sys.modules[name]


def _arange(count: int, like: Any) -> Any:
    """0 .. count - 1 as int32, on the device of `like`."""
    library = _library(like)
    if library.__name__ == "torch":
        return library.arange(count, dtype=library.int32, device=like.device)
    return library.arange(count, dtype="int32")


def lengths(cache_seqlens: Any, q: Any) -> Any:
    """cache_seqlens as int32 (batch,), one for all where it is a number; None stays None."""
    if cache_seqlens is None or len(getattr(cache_seqlens, "shape", ())) > 0:
        return cache_seqlens
    length = integer(cache_seqlens, "cache_seqlens")
    if not 0 <= length < 2**31:
        raise InvalidCall(f"cache_seqlens: got {length}, expected 0 .. {2**31 - 1}")
    return _arange(q.shape[0], q) * 0 + length


_NAMES = {"kv_batch_idx": "cache_batch_idx"}


def appended(
    q: Any,
    caches: tuple[Any, Any],
    new: tuple[Any, Any],
    rotary: tuple[Any, Any],
    used: Any,
    batch_idx: Any,
    block_table: Any,
    local: bool,
    interleaved: bool,
) -> tuple[Any, Any]:
    """Writes new keys and values, rotated (keys), to rows used[b] .. of the caches, through the pages of block_table where it is
    given. Returns q, rotated too: at its own positions when local, else all at used[b]; and the keys that there are then."""
    for name, x in (("q", q), ("k_cache", caches[0]), ("v_cache", caches[1]), ("k", new[0]), ("v", new[1])):
        view(x, name)  # which refuses an unreadable array before anything is computed
    for name, x, cache in zip("kv", new, caches):
        if x.dtype != cache.dtype:
            raise InvalidCall(f"{name}: got {x.dtype}, expected {name}_cache's {cache.dtype}")
    given = {}
    if rotary[0] is not None:
        given = dict(zip(("rotary_cos", "rotary_sin"), rotary), q=q, rotary_interleaved=interleaved)
        if not local:
            given["q_positions"] = _repeated(used, q.shape[1])
    try:
        rotated = append(*new, *caches, cache_seqlens=used, kv_batch_idx=batch_idx, block_table=block_table, **given)
    except Error as error:
        kind = InvalidCall if isinstance(error, InvalidArgument) else type(error)
        raise kind(renamed(str(error), _NAMES)) from None
    return q if rotary[0] is None else rotated, used + new[0].shape[1]


def _repeated(x: Any, count: int) -> Any:
    """x (batch,) as (batch, count), without a copy."""
    library = _library(x)
    if library.__name__ == "torch":
        return x[:, None].expand(-1, count)
    return library.broadcast_to(x[:, None], (x.shape[0], count))
