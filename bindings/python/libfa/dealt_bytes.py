"""How many bytes each scheme of libfa.distributed and libfa.jax_distributed sends, and the choice of scheme="auto" by them."""

from __future__ import annotations

from typing import NamedTuple

from . import dealt_rows
from .dealt_heads import heads_of
from .dealt_rows import Masking, Rows


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
