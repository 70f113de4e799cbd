"""The rows of a sequence that each rank has, and tensors dealt to ranks and put together again."""

from __future__ import annotations

from typing import Any

import torch

from .. import dealt_rows
from ..dealt_rows import Rows
from ..errors import InvalidArgument
from .check import require_time
from .wire import nbytes, packed, unpacked, wire_of


def lengths_of(ends: Any, name: str) -> tuple[int, ...]:
    """The lengths of packed sequences, by their ends."""
    values = ends.tolist() if isinstance(ends, torch.Tensor) else [int(x) for x in ends]
    if not values or values[0] != 0 or any(a > b for a, b in zip(values, values[1:])):
        raise InvalidArgument(f"{name}: got {values}, expected 0 and the ends of the sequences, which never fall")
    return tuple(b - a for a, b in zip(values, values[1:]))


def rows_of(
    seqlen: int,
    *,
    rows: str = "contiguous",
    group: Any = None,
    rank: int | None = None,
    world: int | None = None,
    cu_seqlens: Any = None,
) -> torch.Tensor:
    """The rows of a rank (None: this one), int64: places in the whole sequence, or with cu_seqlens among all packed rows, in
    the order in which the rank has them."""
    dealt_rows.require_scheme(rows)
    if rank is None or world is None:
        wire = wire_of(group)
        rank, world = wire.rank if rank is None else rank, wire.world if world is None else world
    if not 0 <= rank < world:
        raise InvalidArgument(f"rank: got {rank}, expected 0 to {world - 1}")
    lengths = (seqlen,) if cu_seqlens is None else lengths_of(cu_seqlens, "cu_seqlens")
    dealt = Rows(lengths, rows, world, cu_seqlens is not None)
    if dealt.total != seqlen:
        raise InvalidArgument(f"cu_seqlens: got sequences of {dealt.total} rows, expected {seqlen}")
    places = torch.arange(seqlen)
    return torch.cat([places[:0], *(places[part] for _, part in dealt_rows.slices(dealt, rank))])


def shard(
    x: torch.Tensor, dim: int = 1, *, rows: str = "contiguous", group: Any = None, cu_seqlens: Any = None
) -> torch.Tensor:
    """This rank's rows of a tensor whose dimension dim is the whole sequence (packed: all of them). Differentiable; sends
    nothing."""
    return x.index_select(dim, rows_of(x.shape[dim], rows=rows, group=group, cu_seqlens=cu_seqlens).to(x.device))


@torch.no_grad()  # type: ignore[untyped-decorator]
def unshard(
    x: torch.Tensor,
    seqlen: int,
    dim: int = 1,
    *,
    rows: str = "contiguous",
    group: Any = None,
    cu_seqlens: Any = None,
    timeout: float = 1800.0,
) -> torch.Tensor:
    """The whole of a tensor, seqlen rows in dimension dim, of which each rank has its rows: shard()'s inverse, on every rank.
    Without gradients."""
    wire = wire_of(group)
    require_time(timeout)
    every = [rows_of(seqlen, rows=rows, rank=rank, world=wire.world, cu_seqlens=cu_seqlens) for rank in range(wire.world)]
    if x.shape[dim] != len(every[wire.rank]):
        raise InvalidArgument(f"x: got {x.shape[dim]} rows, expected rank {wire.rank}'s {len(every[wire.rank])} of {seqlen}")
    first = x.movedim(dim, 0)
    whole = first.new_empty((seqlen, *first.shape[1:]))
    likes = [((len(places), *first.shape[1:]), x.dtype) for places in every]
    others = [rank for rank in range(wire.world) if rank != wire.rank]
    with wire.call(timeout):
        receives = {rank: x.new_empty(nbytes(likes[rank]), dtype=torch.uint8) for rank in others}
        wire.begin(dict.fromkeys(others, packed(first)), receives).wait()
    for rank, places in enumerate(every):
        whole[places.to(x.device)] = first if rank == wire.rank else unpacked(receives[rank], likes[rank])[0]
    return whole.movedim(0, dim)
