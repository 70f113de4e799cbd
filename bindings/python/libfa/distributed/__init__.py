"""Attention over several processes (context parallelism), on torch.distributed: the rows of a sequence are dealt to the ranks
of a group.

    q, k, v = (libfa.distributed.shard(x, rows="zigzag") for x in (q, k, v))     # this rank's rows
    out = libfa.distributed.attention(q, k, v, causal=True, rows="zigzag")       # this rank's rows of the result, with
                                                                                 gradients

Every rank of the group makes the same calls in the same order, with tensors of the same types and settings. Results and
gradients are those of libfa.torch.attention on the whole sequence within the type's bound, and the same bits in every run with
as many ranks. Partial results and the gradients of keys and values are f32 until they are complete.
"""

from __future__ import annotations

from ..dealt_bytes import Traffic
from ..dealt_rows import local_lengths
from ..errors import DistributedError
from . import operators  # noqa: F401  (registers)
from .calls import all_gather_attention, attention, ring_attention, ulysses_attention
from .decode import decode_attention
from .shards import rows_of, shard, unshard
from .traffic import wire_bytes
from .wire import ByteCounter, count_bytes

__all__ = [
    "ByteCounter",
    "DistributedError",
    "Traffic",
    "all_gather_attention",
    "attention",
    "count_bytes",
    "decode_attention",
    "local_lengths",
    "ring_attention",
    "rows_of",
    "shard",
    "ulysses_attention",
    "unshard",
    "wire_bytes",
]
