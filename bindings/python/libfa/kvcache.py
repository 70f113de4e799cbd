"""Writing to a key/value cache in place and rotary embeddings, by the arrays' own library (numpy, torch, CuPy): what
flash_attn_with_kvcache does before its attention."""

import sys
from typing import Any


def _library(x: Any) -> Any:
    name = type(x).__module__.partition(".")[0]
    if name not in ("numpy", "torch", "cupy"):
        raise NotImplementedError(
            f"a cache of {type(x).__name__}: only arrays of numpy, torch and CuPy can be written in place"
        )
    return sys.modules[name]


def arange(count: int, like: Any) -> Any:
    """0 .. count - 1 as int32, beside like."""
    library = _library(like)
    if library.__name__ == "torch":
        return library.arange(count, dtype=library.int32, device=like.device)
    return library.arange(count, dtype="int32")


def lengths(cache_seqlens: Any, batch: int, like: Any) -> Any:
    """cache_seqlens as int32 (batch,); None stays None."""
    if isinstance(cache_seqlens, int):
        return arange(batch, like) * 0 + cache_seqlens
    return cache_seqlens


def append(cache: Any, new: Any, used: Any, batch_idx: Any, block_table: Any) -> None:
    """cache[row of b, used[b] + i] = new[b, i], through the pages of block_table where it is given."""
    batch, count = new.shape[:2]
    at = used[:, None] + arange(count, new)
    rows = arange(batch, new) if batch_idx is None else batch_idx
    if block_table is None:
        limit = cache.shape[1]
        if count and batch and int(at.max()) >= limit:
            raise ValueError(f"k: cache_seqlens + {count} new keys reach {int(at.max()) + 1}, and the cache holds {limit}")
        cache[rows[:, None], at] = new
        return
    size = cache.shape[1]
    limit = block_table.shape[1] * size
    if count and batch and int(at.max()) >= limit:
        raise ValueError(f"k: cache_seqlens + {count} new keys reach {int(at.max()) + 1}, and the pages hold {limit}")
    cache[block_table[rows[:, None], at // size], at % size] = new


def rotated(x: Any, cos: Any, sin: Any, at: Any, interleaved: bool) -> Any:
    """A copy of x (batch, rows, heads, dim) whose first 2 * cos.shape[1] elements are rotated, pair by pair, by the angles of
    row at[b, i] of cos and sin (positions, dim / 2); pairs are neighbours (interleaved) or half a rotation apart."""
    half = cos.shape[1]
    width = 2 * half
    if interleaved:
        first, second = slice(0, width, 2), slice(1, width, 2)
    else:
        first, second = slice(0, half), slice(half, width)
    torch_like = hasattr(x, "clone")
    wide = x.float() if torch_like else x.astype("float32")
    c, s = cos[at][:, :, None], sin[at][:, :, None]
    out = x.clone() if torch_like else x.copy()
    a, b = wide[..., first], wide[..., second]
    turned = (a * c - b * s, a * s + b * c)
    out[..., first], out[..., second] = (t.to(x.dtype) if torch_like else t.astype(x.dtype) for t in turned)
    return out
