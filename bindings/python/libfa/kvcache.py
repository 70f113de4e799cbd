"""Writing to a key/value cache in place and rotary embeddings, by the arrays' own library (numpy, torch, CuPy): the part of
flash_attn_with_kvcache before its attention. Errors name its arguments.
"""

import sys
from typing import Any

from .errors import InvalidCall
from .scalars import integer


def _library(x: Any) -> Any:
    name = type(x).__module__.partition(".")[0]
    if name not in ("numpy", "torch", "cupy"):
        raise NotImplementedError(
            f"a cache of {type(x).__name__}: only arrays of numpy, torch and CuPy can be written in place"
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


def _require_within(values: Any, limit: int, what: str, meaning: str) -> None:
    """Every one of values is 0 .. limit - 1: others would be taken from the end, or be outside."""
    for value in (int(values.min()), int(values.max())) if 0 not in values.shape else ():
        if not 0 <= value < limit:
            raise InvalidCall(f"{what}: got {value}, expected 0 .. {limit - 1}, {meaning}")


class Place:
    """Where new keys and values go in a cache: row used[b] + i of sequence b has new[b, i], through the pages of block_table
    where it is given."""

    def __init__(self, cache: Any, used: Any, new: Any, batch_idx: Any, block_table: Any) -> None:
        batch, count = new.shape[:2]
        if tuple(used.shape) != (batch,):
            raise InvalidCall(f"cache_seqlens: got shape {tuple(used.shape)}, expected ({batch},), as k has {batch} sequences")
        if batch_idx is not None and block_table is not None:
            raise InvalidCall(
                "cache_batch_idx with block_table: the table's rows already choose the pages; permute them instead"
            )
        size = cache.shape[1]
        limit = size if block_table is None else size * block_table.shape[1]
        holder = "the cache holds" if block_table is None else "a row of block_table has pages for"
        at = used[:, None] + _arange(count, new)
        if batch and count and int(at.max()) >= limit:
            raise InvalidCall(f"cache_seqlens: with {count} new keys it reaches {int(at.max()) + 1}, and {holder} {limit}")
        _require_within(used, limit + 1, "cache_seqlens", "the keys of the sequence")
        rows = _arange(batch, new) if batch_idx is None else batch_idx
        if block_table is None:
            _require_within(rows, cache.shape[0], "cache_batch_idx", "a row of k_cache")
            self.index = (rows[:, None], at)
        else:
            pages = block_table[rows[:, None], at // size]
            _require_within(pages, cache.shape[0], "block_table", "a page of k_cache")
            self.index = (pages, at % size)
        self.lead, self.rows = (batch, count), tuple(cache.shape[:2])

    def require(self, cache: Any, new: Any, what: str) -> None:
        """That new can go there, as nothing is written before everything can be."""
        if tuple(cache.shape[:2]) != self.rows:
            raise InvalidCall(f"{what}_cache: got shape {tuple(cache.shape)}, expected k_cache's {self.rows} in front")
        want = self.lead + tuple(cache.shape[2:])
        if tuple(new.shape) != want:
            raise InvalidCall(f"{what}: got shape {tuple(new.shape)}, expected {want}")
        if new.dtype != cache.dtype:
            raise InvalidCall(f"{what}: got {new.dtype}, expected {what}_cache's {cache.dtype}")

    def write(self, cache: Any, new: Any) -> None:
        cache[self.index] = new


def rotated(x: Any, cos: Any, sin: Any, used: Any, stepping: bool, interleaved: bool) -> Any:
    """A copy of x (batch, rows, heads, dim) whose first 2 * cos.shape[1] elements are rotated, pair by pair, by the angles of
    row used[b] of cos and sin (positions, dim / 2), or used[b] + i for row i when stepping; pairs are neighbours (interleaved)
    or half a rotation apart."""
    if len(cos.shape) != 2 or 2 * cos.shape[1] > x.shape[-1] or tuple(sin.shape) != tuple(cos.shape):
        raise InvalidCall(
            f"rotary_cos: got shape {tuple(cos.shape)} and rotary_sin's {tuple(sin.shape)}, expected (positions, at most "
            f"{x.shape[-1] // 2}) of both"
        )
    at = used[:, None] + (_arange(x.shape[1], x) if stepping else 0)
    if 0 not in at.shape and int(at.max()) >= cos.shape[0]:
        raise InvalidCall(f"rotary_cos: got {cos.shape[0]} positions, expected at least {int(at.max()) + 1}")
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
