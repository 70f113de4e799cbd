"""DeepSpeed's Ulysses: by an all-to-all each rank gets all rows of some heads, and by another one they go back.

Heads are dealt by key/value head. Where there are more ranks than key/value heads, ranks share one, and each has some of its
query heads; the gradients of that head's keys and values are then added by the ranks that have its rows, in f32.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import dealt_rows
from ..attention import attention
from ..backward import backward
from ..dealt_heads import heads_of
from ..dealt_rows import Rows
from .local import Needs, Saved, Setting, delta_of, gradient_of_sinks
from .wire import Wire, nbytes, packed, unpacked


def _size(part: slice) -> int:
    return int(part.stop - part.start)


def _like(x: Any, rows: int, heads: int, dtype: Any = None) -> tuple[tuple[int, ...], Any]:
    return (*x.shape[:-3], rows, heads, x.shape[-1]), dtype or x.dtype


def _to_heads(wire: Wire, rows: list[Rows], tensors: list[Any], parts: list[list[slice]]) -> list[Any]:
    """All rows of this rank's heads, in order, of tensors (..., rows, heads, dim); rows and parts (a slice of heads for each
    rank) are those of each tensor."""
    sends, receives = {}, {}
    for peer in range(wire.world):
        if peer != wire.rank:
            sends[peer] = packed(*(x[..., part[peer], :] for x, part in zip(tensors, parts)))
            likes = [
                _like(x, dealt_rows.count(of, peer), _size(part[wire.rank])) for x, of, part in zip(tensors, rows, parts)
            ]
            receives[peer] = tensors[0].new_empty(nbytes(*likes), dtype=torch.uint8)
    wire.begin(sends, receives).wait()
    found = [x.new_empty(_like(x, of.total, _size(part[wire.rank]))[0]) for x, of, part in zip(tensors, rows, parts)]
    for peer in range(wire.world):
        if peer == wire.rank:
            arrived = [x[..., part[peer], :] for x, part in zip(tensors, parts)]
        else:
            likes = [_like(x, dealt_rows.count(of, peer), x.shape[-2]) for x, of in zip(found, rows)]
            arrived = unpacked(receives[peer], *likes)
        for into, x, of in zip(found, arrived, rows):
            for start, place in dealt_rows.slices(of, peer):
                here = into[..., place, :, :]
                here.copy_(x.narrow(-3, start, here.shape[-3]))
    return found


def _to_rows(wire: Wire, rows: list[Rows], tensors: list[Any], parts: list[list[slice]], heads: list[int]) -> list[Any]:
    """This rank's rows of all heads, of tensors that have all rows of its own heads; f32 where ranks share a head, and the
    sum."""

    def of_peer(x: Any, of: Rows, peer: int) -> Any:
        places = [place for _, place in dealt_rows.slices(of, peer)]
        return torch.cat([x[..., place, :, :] for place in places], -3) if places else x[..., :0, :, :]

    sends, receives, likes = {}, {}, {}
    counts = [dealt_rows.count(of, wire.rank) for of in rows]
    for peer in range(wire.world):
        likes[peer] = [_like(x, n, _size(part[peer])) for x, n, part in zip(tensors, counts, parts)]
        if peer != wire.rank:
            sends[peer] = packed(*(of_peer(x, of, peer) for x, of in zip(tensors, rows)))
            receives[peer] = tensors[0].new_empty(nbytes(*likes[peer]), dtype=torch.uint8)
    transfer = wire.begin(sends, receives)
    found = [x.new_zeros(_like(x, n, all_heads)[0]) for x, n, all_heads in zip(tensors, counts, heads)]
    own = [of_peer(x, of, wire.rank) for x, of in zip(tensors, rows)]
    transfer.wait()
    for peer in range(wire.world):  # in the order of ranks, always
        arrived = own if peer == wire.rank else unpacked(receives[peer], *likes[peer])
        for into, x, part in zip(found, arrived, parts):
            into[..., part[peer], :] += x
    return found


def _parts(wire: Wire, heads: int, kv_heads: int) -> tuple[list[slice], list[slice]]:
    every = [heads_of(heads, kv_heads, wire.world, rank) for rank in range(wire.world)]
    return [part.q for part in every], [part.kv for part in every]


def _given(setting: Setting, mine: slice, device: Any) -> dict[str, Any]:
    return {**setting.whole(device), "alibi_slopes": None if setting.slopes is None else setting.slopes[mine]}


def ulysses_forward(wire: Wire, setting: Setting, q: Any, k: Any, v: Any, sinks: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    of_q, of_kv = _parts(wire, q.shape[-2], k.shape[-2])
    rows = [setting.rows, setting.keys, setting.keys]
    q_all, k_all, v_all = _to_heads(wire, rows, [q, k, v], [of_q, of_kv, of_kv])
    mine = of_q[wire.rank]
    if _size(mine):
        given = _given(setting, mine, q.device)
        own_sinks = None if sinks is None else sinks.detach()[mine]
        out, lse = attention(q_all, k_all, v_all, sinks=own_sinks, return_lse=True, **given)
    else:
        out, lse = (
            v_all.new_empty(_like(v, setting.rows.total, 0)[0], dtype=q.dtype),
            q.new_empty((*q.shape[:-3], 0, setting.rows.total), dtype=torch.float32),
        )
    sums = lse.transpose(-1, -2).unsqueeze(-1)  # (..., rows, heads, 1)
    sums_back, out_back = _to_rows(wire, [setting.rows] * 2, [sums, out], [of_q] * 2, [q.shape[-2]] * 2)
    return out_back, sums_back.squeeze(-1).transpose(-1, -2).contiguous(), (q_all, k_all, v_all, lse)


def ulysses_backward(wire: Wire, setting: Setting, saved: Saved, dout: Any, dlse: Any, needs: Needs) -> tuple[Any, ...]:
    q_all, k_all, v_all, lse, sinks, out = saved
    heads, kv_heads = out.shape[-2], setting.kv_heads
    of_q, of_kv = _parts(wire, heads, kv_heads)
    mine = of_q[wire.rank]
    delta_rows = delta_of(out, dout, dlse).transpose(-1, -2).unsqueeze(-1)
    delta_all, dout_all = _to_heads(wire, [setting.rows] * 2, [delta_rows, dout], [of_q] * 2)
    delta = delta_all.squeeze(-1).transpose(-1, -2).contiguous()
    shared = torch.float32 if wire.world > kv_heads else k_all.dtype
    dq = torch.empty_like(q_all)
    dk, dv = (torch.empty_like(x, dtype=shared) for x in (k_all, v_all))
    if _size(mine):
        given = _given(setting, mine, q_all.device)
        backward(q_all, k_all, v_all, None, lse, dout_all, delta=delta, dq=dq, dk=dk, dv=dv, **given)
    rows = [setting.keys, setting.keys, setting.rows]
    dk, dv, dq = _to_rows(wire, rows, [dk, dv, dq], [of_kv, of_kv, of_q], [kv_heads, kv_heads, heads])
    dsinks = None
    if needs.sinks:
        dsinks = torch.zeros_like(sinks)
        if _size(mine):
            dsinks[mine] = gradient_of_sinks(sinks[mine], lse, delta).to(sinks.dtype)
    return dq, dk.to(k_all.dtype), dv.to(v_all.dtype), dsinks
