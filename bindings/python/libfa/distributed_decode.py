"""Decode context parallelism: the tokens of a cache are dealt to ranks, each attends its own, and the partial results are
merged.

Token t of a sequence is on rank (t // interleave) % world, in the order of its tokens there. Neighbouring ranks thus grow
alike, and a rank's keys are those before a position: no mask is needed but a length, and for a window a number of keys that are
left out in front.
"""

from __future__ import annotations

from typing import Any

import torch

from .attention import attention
from .distributed_wire import Wire, nbytes, packed, unpacked
from .merge import merge

_MOST_PARTS = 31  # of one merge, apart from the result of those before


def local_lengths(lengths: Any, rank: int, world: int, interleave: int = 1) -> Any:
    """How many of the first `lengths` tokens of a sequence are on a rank: for a number a number, for a tensor a tensor."""
    turn = world * interleave
    rest = lengths % turn - rank * interleave
    rest = rest.clamp(0, interleave) if isinstance(rest, torch.Tensor) else min(max(rest, 0), interleave)
    return lengths // turn * interleave + rest


def _attend(
    wire: Wire, q: Any, k: Any, v: Any, lengths: Any, interleave: int, window: int, given: dict[str, Any]
) -> tuple[Any, Any]:
    """This rank's part, f32: out (tokens, 1, heads, dim), lse (tokens, heads, 1). Each new token is a sequence with keys of its
    own number."""
    batch, new = q.shape[:2]
    place = (lengths[:, None] - new + torch.arange(new, device=lengths.device)).reshape(-1)  # of each new token
    keys = local_lengths((place + 1).clamp(min=0), wire.rank, wire.world, interleave)
    given = {**given, "seqused_k": keys.int()}
    if window >= 0:
        given["leftpad_k"] = local_lengths((place - window).clamp(min=0), wire.rank, wire.world, interleave).int()
    if new > 1:
        if given.get("block_table") is not None:
            given["block_table"] = given["block_table"].repeat_interleave(new, 0)
        else:
            entry = torch.arange(batch, dtype=torch.int32, device=q.device).repeat_interleave(new)
            given["kv_batch_idx"] = entry
    q = q.reshape(batch * new, 1, *q.shape[2:])
    found: tuple[Any, Any] = attention(q, k, v, out_dtype=torch.float32, return_lse=True, **given)
    return found


def _merged(outs: list[Any], lses: list[Any], dtype: Any, threads: Any) -> tuple[Any, Any]:
    """The merge of parts in their order, however many there are."""
    while len(outs) > _MOST_PARTS + 1:
        few = outs[: _MOST_PARTS + 1], lses[: _MOST_PARTS + 1]
        out, lse = merge(*few, return_lse=True, num_threads=threads)
        outs, lses = [out, *outs[_MOST_PARTS + 1 :]], [lse, *lses[_MOST_PARTS + 1 :]]
    found: tuple[Any, Any] = merge(outs, lses, out_dtype=dtype, return_lse=True, num_threads=threads)
    return found


def _exchanged(wire: Wire, sends: list[Any], likes: list[Any]) -> list[list[Any]]:
    """The tensors that each rank sends this one; sends are the tensors for each."""
    receives = {}
    for peer in range(wire.world):
        if peer != wire.rank:
            receives[peer] = sends[0][0].new_empty(nbytes(*likes), dtype=torch.uint8)
    wire.begin({peer: packed(*sends[peer]) for peer in receives}, receives).wait()
    return [list(sends[peer]) if peer == wire.rank else unpacked(receives[peer], *likes) for peer in range(wire.world)]


def decode(
    wire: Wire,
    q: Any,
    k: Any,
    v: Any,
    lengths: Any,
    interleave: int,
    window: int,
    split: bool,
    sinks: Any,
    given: dict[str, Any],
) -> tuple[Any, Any]:
    """(out, lse) of q (batch, new tokens, heads, dim); split: of the rank's own heads, else of all."""
    batch, new, heads, _ = q.shape
    if split:
        like = (tuple(q.shape), q.dtype)
        q = torch.cat([part[0] for part in _exchanged(wire, [[q]] * wire.world, [like])], 2)
    out, lse = _attend(wire, q, k, v, lengths, interleave, window, given)
    parts = [slice(heads * rank, heads * (rank + 1)) for rank in range(wire.world)] if split else [slice(None)] * wire.world
    sends = [[out[:, :, part], lse[:, part]] for part in parts]
    likes = [(tuple(x.shape), x.dtype) for x in sends[wire.rank]]
    arrived = _exchanged(wire, sends, likes)
    outs, lses = [part[0] for part in arrived], [part[1] for part in arrived]
    if sinks is not None:
        outs.insert(0, torch.zeros_like(outs[0]))
        mine = sinks.float()[parts[wire.rank]]
        lses.insert(0, mine[:, None].expand(likes[1][0]))
    out, lse = _merged(outs, lses, q.dtype, given.get("num_threads", 0))
    return out.view(batch, new, heads, out.shape[-1]), lse.view(batch, new, heads).transpose(1, 2).contiguous()
