"""Decode context parallelism: the tokens of a cache are dealt to ranks, each attends its own, and the partial results are
merged.

Token t of a sequence is on rank (t // interleave) % world, in the order of its tokens there. Neighbouring ranks thus grow
alike, and a rank's keys are those before a position: no mask is needed but a length, and for a window a number of keys that are
left out in front.
"""

from __future__ import annotations

from typing import Any

import torch

from ..attention import attention
from ..dealt_rows import local_lengths
from ..errors import InvalidArgument, Unsupported
from ..merge import merge
from .check import agree_once, refuse, require_time
from .wire import Wire, nbytes, packed, unpacked, wire_of

_MOST_PARTS = 31  # of one merge, apart from the result of those before


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


def decode_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    seqlens: Any,
    *,
    group: Any = None,
    interleave: int = 1,
    split_heads: bool = False,
    block_table: torch.Tensor | None = None,
    window: int = -1,
    softcap: float = 0.0,
    softmax_scale: float | None = None,
    sinks: torch.Tensor | None = None,
    num_threads: int = 0,
    return_lse: bool = False,
    timeout: float = 1800.0,
    check: bool = True,
    **cache: Any,
) -> Any:
    """Decode context parallelism: causal attention of new tokens over a cache whose tokens are dealt to the ranks.

    q                   (batch, new tokens, heads, dim), the last tokens of their sequences; the same on every rank, or with
                        split_heads the rank's own heads, as many on each, and the result then has these
    k, v                this rank's cache: (batch, rows, kv heads, dim), or with block_table (pages, page size, kv heads, dim).
                        Token t of a sequence is on rank (t // interleave) % world, and there behind those before it; the new
                        tokens are in it
    seqlens             the lengths of whole sequences, new tokens included: int32 (batch,) or a list
    window              tokens before its own that a query attends; -1: all
    sinks               one for each head, those of all ranks with split_heads
    cache               k_scale, v_scale, k_zero, v_zero, dtype_k, dtype_v, k_rope, hadamard_k, hadamard_v of a quantised or rotated
                        cache, as libfa.attention has them
    group, softcap, softmax_scale, num_threads, timeout, check    as attention() has them

    Returns out, shaped as q, or (out, lse): lse float32 (batch, heads, new tokens). local_lengths() says how many of a
    sequence's tokens a rank has, which is where the next one goes. Without gradients. Raises as attention() does.
    """
    wire = wire_of(group)
    require_time(timeout)
    try:
        lengths = _lengths_of(q, k, v, seqlens, interleave)
    except Exception as error:
        if check:
            refuse(wire, error, timeout)
        raise
    given = dict(softcap=softcap, softmax_scale=softmax_scale, num_threads=num_threads, block_table=block_table, **cache)
    plain = {name: x for name, x in given.items() if not isinstance(x, torch.Tensor) and name != "num_threads"}
    kind = {
        "call": "decode_attention",
        "interleave": interleave,
        "split_heads": split_heads,
        "window": window,
        **plain,
        "q": f"{tuple(q.shape)} {q.dtype} on {q.device.type}",
        "k": f"{tuple(k.shape[-2:])} {k.dtype} on {k.device.type}",
        "v": f"{tuple(v.shape[-2:])} {v.dtype} on {v.device.type}",
        "sinks": None if sinks is None else tuple(sinks.shape),
    }

    def validate() -> None:
        heads = q.shape[2] * (wire.world if split_heads else 1)
        if sinks is not None and tuple(sinks.shape) != (heads,):
            raise InvalidArgument(f"sinks: got shape {tuple(sinks.shape)}, expected ({heads},), one a head of all ranks")
        none = q.detach()[:, :0]  # no queries: libfa's own checks alone
        if split_heads:
            none = none.repeat(1, 1, wire.world, 1)
        attention(none, k.detach(), v.detach(), seqused_k=torch.zeros_like(lengths, dtype=torch.int32), **given)

    agree_once(wire, kind, (tuple(k.shape), tuple(v.shape)), validate, timeout, check)
    with torch.no_grad(), wire.call(timeout):
        out, lse = decode(wire, q, k, v, lengths, interleave, window, split_heads, sinks, given)
    return (out, lse) if return_lse else out


def _lengths_of(q: Any, k: Any, v: Any, seqlens: Any, interleave: int) -> Any:
    """seqlens as a tensor, int64, of checked arguments of decode_attention()."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v)):
        raise Unsupported("q, k, v: one requires a gradient, and decoding has none; attention() does, or use torch.no_grad()")
    if interleave < 1:
        raise InvalidArgument(f"interleave: got {interleave}, expected 1 or more tokens")
    if q.dim() != 4:
        raise InvalidArgument(f"q: got shape {tuple(q.shape)}, expected (batch, new tokens, heads, dim)")
    lengths = torch.as_tensor(seqlens, device=q.device).long()
    if tuple(lengths.shape) != (q.shape[0],):
        raise InvalidArgument(f"seqlens: got shape {tuple(lengths.shape)}, expected ({q.shape[0]},), one a sequence of q")
    return lengths
