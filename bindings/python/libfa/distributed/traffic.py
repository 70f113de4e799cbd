"""How many bytes each scheme of libfa.distributed sends, and the choice of scheme="auto" by them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from .. import dealt_rows, scalars
from ..dealt_rows import Masking, Rows
from ..errors import InvalidArgument
from .local import causal_name
from .ulysses import heads_of


class Traffic(NamedTuple):
    """Bytes that all ranks together send in a pass."""

    forward: int
    backward: int


class Sizes(NamedTuple):
    """Numbers of elements, and bytes of one."""

    batch: int
    heads: int
    kv_heads: int
    dim: int
    dim_v: int
    bytes_q: int
    bytes_kv: int


def ring(rows: Rows, keys: Rows, mask: Masking, sizes: Sizes) -> Traffic:
    """Keys and values of every rank, hops times; so do their gradients in f32."""
    hops = dealt_rows.hops(rows, keys, mask)
    return _of_keys(hops, keys, sizes)


def all_gather(rows: Rows, keys: Rows, mask: Masking, sizes: Sizes) -> Traffic:
    """Keys and values of every rank to every other, and f32 gradients back."""
    return _of_keys(rows.world - 1, keys, sizes)


def _of_keys(times: int, keys: Rows, sizes: Sizes) -> Traffic:
    elements = times * sizes.batch * keys.total * sizes.kv_heads * (sizes.dim + sizes.dim_v)
    return Traffic(elements * sizes.bytes_kv, elements * (sizes.bytes_kv + 4))


def ulysses(rows: Rows, keys: Rows, mask: Masking, sizes: Sizes) -> Traffic:
    """Each row to the ranks that have its other heads, and the results and gradients back."""
    forward = backward = 0
    kv_gradient = 4 if rows.world > sizes.kv_heads else sizes.bytes_kv
    dims = sizes.dim + sizes.dim_v
    for rank in range(rows.world):
        part = heads_of(sizes.heads, sizes.kv_heads, rows.world, rank)
        heads, kv_heads = part.q.stop - part.q.start, part.kv.stop - part.kv.start
        others_q = sizes.batch * (rows.total - dealt_rows.count(rows, rank))
        others_kv = sizes.batch * (keys.total - dealt_rows.count(keys, rank))
        forward += others_q * heads * (dims * sizes.bytes_q + 4) + others_kv * kv_heads * dims * sizes.bytes_kv
        backward += others_q * heads * (dims * sizes.bytes_q + 4) + others_kv * kv_heads * dims * kv_gradient
    return Traffic(forward, backward)


BY_NAME = {"ring": ring, "all_gather": all_gather, "ulysses": ulysses}


def least(rows: Rows, keys: Rows, mask: Masking, sizes: Sizes, gradients: bool) -> str:
    """The scheme that sends the fewest bytes, in both passes where gradients are wanted; where several do, the first of
    BY_NAME."""
    found = {name: function(rows, keys, mask, sizes) for name, function in BY_NAME.items()}
    return min(found, key=lambda name: found[name].forward + (found[name].backward if gradients else 0))


def wire_bytes(
    scheme: str,
    world: int,
    seqlen: int,
    heads: int,
    kv_heads: int,
    dim: int,
    *,
    batch: int = 1,
    dim_v: int | None = None,
    dtype: torch.dtype = torch.bfloat16,
    rows: str = "contiguous",
    causal: Any = False,
    window: tuple[int, int] = (-1, -1),
    seqlen_k: int | None = None,
) -> Traffic:
    """(forward, backward): the bytes that all ranks together send in each pass of attention(scheme=scheme), for shapes as
    there.

    With T hops (world - 1, or for a window as many as keys have to travel), N and M rows and keys, E and F bytes of an element
    of q and k: ring forward is T M kv_heads (dim + dim_v) F, backward the same with F + 4; all_gather has T = world - 1.
    ulysses sends (world - 1) / world of N heads (dim + dim_v) E + 4 N heads, and of M kv_heads (dim + dim_v) F, in each pass;
    where ranks share key/value heads, these are counted for every rank, and their gradients have 4 bytes.
    """
    if scheme not in BY_NAME:
        raise InvalidArgument(f"scheme: got {scheme!r}, expected one of {', '.join(map(repr, BY_NAME))}")
    dealt_rows.require_scheme(rows)
    of_q, of_k = (Rows((length,), rows, world, False) for length in (seqlen, seqlen if seqlen_k is None else seqlen_k))
    left, right = scalars.pair(window, "window")
    size = dtype.itemsize
    sizes = Sizes(batch, heads, kv_heads, dim, dim if dim_v is None else dim_v, size, size)
    return BY_NAME[scheme](of_q, of_k, Masking(causal_name(causal), max(left, -1), max(right, -1)), sizes)
