"""libfa.distributed.wire_bytes."""

from __future__ import annotations

from typing import Any

import torch

from .. import dealt_rows
from ..dealt_bytes import BY_NAME, Sizes, Traffic
from ..dealt_rows import Rows
from ..errors import InvalidArgument


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
    size = dtype.itemsize
    sizes = Sizes(batch, heads, kv_heads, dim, dim if dim_v is None else dim_v, size, size)
    return BY_NAME[scheme](of_q, of_k, dealt_rows.masking_of(causal, window), sizes)
