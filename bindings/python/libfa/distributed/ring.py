"""Ring attention and the all-gather of keys and values: each rank keeps its queries, and keys and values come to it.

Around the ring, those of the next step travel while a rank computes with those that it has; gradients of keys and values travel
along and are taken home at the end. An all-gather has all of them at once, and each rank sends home the gradients that it
has computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from .. import dealt_rows
from .local import Gradient, Needs, Partial, Saved, Setting, delta_of, gradient_of_sinks
from .wire import Wire, nbytes, packed, unpacked

Shapes = tuple[tuple[tuple[int, ...], Any], tuple[tuple[int, ...], Any]]


def _shapes(setting: Setting, owner: int | None, k: Any, v: Any, dtype: Any = None) -> Shapes:
    """Shapes and types of an owner's keys and values, or of all."""
    rows = setting.keys.total if owner is None else dealt_rows.count(setting.keys, owner)
    return tuple(((*x.shape[:-3], rows, *x.shape[-2:]), dtype or x.dtype) for x in (k, v))  # type: ignore[return-value]


def _visits(wire: Wire, setting: Setting, hops: int, k: Any, v: Any) -> Iterator[tuple[int, int, Any, Any]]:
    """(step, owner, its keys and values) of each step; those of the next one travel meanwhile."""
    rank, world = wire.rank, wire.world
    held = packed(k, v) if hops else None
    for step in range(hops + 1):
        owner = (rank - step) % world
        if step:
            k, v = unpacked(held, *_shapes(setting, owner, k, v))
        if step == hops:
            yield step, owner, k, v
            return
        coming = k.new_empty(nbytes(*_shapes(setting, (owner - 1) % world, k, v)), dtype=torch.uint8)
        transfer = wire.begin({(rank + 1) % world: held}, {(rank - 1) % world: coming})
        yield step, owner, k, v
        transfer.wait()
        held = coming


def ring_forward(wire: Wire, setting: Setting, q: Any, k: Any, v: Any, sinks: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    hops = dealt_rows.hops(setting.rows, setting.keys, setting.mask)
    partial = Partial(setting, q, v.shape[-1], sinks)
    for _, owner, keys, values in _visits(wire, setting, hops, k, v):
        partial.add(setting.plan(wire.rank, owner), keys, values)
    out, lse = partial.result()
    return out, lse, (q, k, v, lse)


def ring_backward(wire: Wire, setting: Setting, saved: Saved, dout: Any, dlse: Any, needs: Needs) -> tuple[Any, ...]:
    rank, world = wire.rank, wire.world
    q, k, v, lse, sinks, out = saved
    hops = dealt_rows.hops(setting.rows, setting.keys, setting.mask)
    delta = delta_of(out, dout, dlse)
    gradient = Gradient(setting, q, lse, dout, delta, needs.q)
    home: Any = None
    arriving: Any = None
    for step, owner, keys, values in _visits(wire, setting, hops, k, v):
        if needs.kv:
            shapes = _shapes(setting, owner, keys, values, torch.float32)
            own = q.new_zeros(nbytes(*shapes), dtype=torch.uint8)
            gradient.add(setting.plan(rank, owner), keys, values, *unpacked(own, *shapes))
            if arriving is not None:  # those of the ranks that had the keys before
                arriving[0].wait()
                own.view(torch.float32).add_(arriving[1].view(torch.float32))
            if step == 0:
                home = own
            elif step < hops:
                following = _shapes(setting, (owner - 1) % world, keys, values, torch.float32)
                sums = q.new_empty(nbytes(*following), dtype=torch.uint8)
                arriving = (wire.begin({(rank + 1) % world: own}, {(rank - 1) % world: sums}), sums, own)
            else:
                sums = torch.empty_like(home)
                wire.begin({owner: own}, {(rank + step) % world: sums}).wait()
                home.view(torch.float32).add_(sums.view(torch.float32))
        else:
            gradient.add(setting.plan(rank, owner), keys, values, None, None)
    dk = dv = None
    if needs.kv:
        dk, dv = unpacked(home, *_shapes(setting, rank, k, v, torch.float32))
        dk, dv = dk.to(k.dtype), dv.to(v.dtype)
    dsinks = gradient_of_sinks(sinks, lse, delta).to(sinks.dtype) if needs.sinks else None
    return gradient.result(), dk, dv, dsinks


def _gathered(wire: Wire, setting: Setting, k: Any, v: Any) -> list[Any]:
    """(keys, values) of each rank."""
    others = [rank for rank in range(wire.world) if rank != wire.rank]
    own = packed(k, v) if others else None
    found = {rank: k.new_empty(nbytes(*_shapes(setting, rank, k, v)), dtype=torch.uint8) for rank in others}
    wire.begin(dict.fromkeys(others, own), found).wait()
    return [
        (k, v) if rank == wire.rank else tuple(unpacked(found[rank], *_shapes(setting, rank, k, v)))
        for rank in range(wire.world)
    ]


def _in_order(setting: Setting, parts: list[Any], k: Any, v: Any) -> list[tuple[int | None, Any, Any]]:
    """(owner, keys, values): all in one where the rows of a rank are dense, so that one call has all keys of a query."""
    if setting.rows.scheme == "striped":
        return [(owner, *part) for owner, part in enumerate(parts)]
    whole = [k.new_empty(shape, dtype=dtype) for shape, dtype in _shapes(setting, None, k, v)]
    for owner, part in enumerate(parts):
        for start, rows in dealt_rows.slices(setting.keys, owner):
            for into, x in zip(whole, part):
                into[..., rows, :, :] = x.narrow(-3, start, rows.stop - rows.start)
    return [(None, whole[0], whole[1])]


def gather_forward(wire: Wire, setting: Setting, q: Any, k: Any, v: Any, sinks: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    own = q, k, v
    partial = Partial(setting, q, v.shape[-1], sinks)
    for owner, keys, values in _in_order(setting, _gathered(wire, setting, k, v), k, v):
        partial.add(setting.plan(wire.rank, owner), keys, values)
    out, lse = partial.result()
    return out, lse, (*own, lse)


def gather_backward(wire: Wire, setting: Setting, saved: Saved, dout: Any, dlse: Any, needs: Needs) -> tuple[Any, ...]:
    q, k, v, lse, sinks, out = saved
    delta = delta_of(out, dout, dlse)
    gradient = Gradient(setting, q, lse, dout, delta, needs.q)
    computed: dict[int, Any] = {}  # by owner
    for owner, keys, values in _in_order(setting, _gathered(wire, setting, k, v), k, v):
        sums: Any = [torch.zeros_like(x, dtype=torch.float32) for x in (keys, values)] if needs.kv else (None, None)
        gradient.add(setting.plan(wire.rank, owner), keys, values, *sums)
        if not needs.kv:
            continue
        if owner is not None:
            computed[owner] = packed(*sums)
            continue
        for rank in range(wire.world):
            places = [rows for _, rows in dealt_rows.slices(setting.keys, rank)]
            parts = [torch.cat([x[..., rows, :, :] for rows in places], -3) if places else x[..., :0, :, :] for x in sums]
            computed[rank] = packed(*parts)
    dk = dv = None
    if needs.kv:
        others = [rank for rank in range(wire.world) if rank != wire.rank]
        own = computed.pop(wire.rank)
        arrived = {rank: torch.empty_like(own) for rank in others}
        wire.begin(computed, arrived).wait()
        arrived[wire.rank] = own
        total = arrived[0].view(torch.float32).clone()
        for rank in range(1, wire.world):  # in the order of ranks, always
            total += arrived[rank].view(torch.float32)
        dk, dv = unpacked(total.view(torch.uint8), *_shapes(setting, wire.rank, k, v, torch.float32))
        dk, dv = dk.to(k.dtype), dv.to(v.dtype)
    dsinks = gradient_of_sinks(sinks, lse, delta).to(sinks.dtype) if needs.sinks else None
    return gradient.result(), dk, dv, dsinks
