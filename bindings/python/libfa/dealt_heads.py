"""Which heads each rank has where heads are dealt (Ulysses), in libfa.distributed and libfa.jax_distributed."""

from __future__ import annotations

from typing import NamedTuple


class Heads(NamedTuple):
    """The heads of a rank: of queries, and of keys and values."""

    q: slice
    kv: slice


def heads_of(heads: int, kv_heads: int, world: int, rank: int) -> Heads:
    """The heads of a rank; none where there are more ranks than query heads."""
    group = heads // kv_heads
    if world <= kv_heads:
        first, last = kv_heads * rank // world, kv_heads * (rank + 1) // world
        return Heads(slice(first * group, last * group), slice(first, last))
    head = ((rank + 1) * kv_heads - 1) // world
    begin, end = world * head // kv_heads, world * (head + 1) // kv_heads  # the ranks that share it
    first, last = (group * (rank - begin + i) // (end - begin) for i in (0, 1))
    if first == last:
        return Heads(slice(0, 0), slice(0, 0))
    return Heads(slice(head * group + first, head * group + last), slice(head, head + 1))
