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

import functools
from typing import Any, Callable

import torch

from . import attention as _attention
from . import distributed_bytes, distributed_decode, distributed_rows, scalars
from . import torch as _torch
from .distributed_bytes import Sizes, Traffic
from .distributed_check import agree, refuse
from .distributed_decode import local_lengths
from .distributed_local import CAUSAL, Needs, Saved, Setting
from .distributed_ring import gather_backward, gather_forward, ring_backward, ring_forward
from .distributed_rows import Masking, Rows
from .distributed_ulysses import ulysses_backward, ulysses_forward
from .distributed_wire import ByteCounter, Wire, count_bytes, nbytes, packed, unpacked, wire_of
from .errors import DistributedError, InvalidArgument, Unsupported

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

_SCHEMES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "ring": (ring_forward, ring_backward),
    "all_gather": (gather_forward, gather_backward),
    "ulysses": (ulysses_forward, ulysses_backward),
}


_MOST_KINDS = 4096  # calls whose arguments are remembered: each of packed sequences has its own


class _Attention(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, scheme: str, wire: Wire, timeout: float, setting: Setting, q: Any, k: Any, v: Any, sinks: Any) -> Any:
        with wire.call(timeout):
            out, lse, saved = _SCHEMES[scheme][0](wire, setting, q, k, v, sinks)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*saved, sinks, out)
        ctx.given = scheme, wire, timeout, setting
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, dout: Any, dlse: Any) -> Any:
        scheme, wire, timeout, setting = ctx.given
        saved = Saved(*ctx.saved_tensors)
        _, _, _, _, q, k, v, sinks = ctx.needs_input_grad
        needs = Needs(q, k or v, sinks)
        if dout is None:  # of lse alone
            dout = torch.zeros_like(saved.out)
        with wire.call(timeout):
            found = _SCHEMES[scheme][1](wire, setting, saved, dout, dlse, needs)
        return None, None, None, None, *(x if need else None for x, need in zip(found, (q, k, v, sinks)))


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scheme: str = "auto",
    rows: str = "contiguous",
    group: Any = None,
    seqlen: int | None = None,
    seqlen_k: int | None = None,
    cu_seqlens: Any = None,
    cu_seqlens_k: Any = None,
    causal: Any = False,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    softmax_scale: float | None = None,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = True,
    num_threads: int = 0,
    layout: str = "bshd",
    return_lse: bool = False,
    timeout: float = 1800.0,
    check: bool = True,
) -> Any:
    """libfa.torch.attention of a sequence whose rows are dealt to the ranks of a group: of this rank's rows.

    q (batch, rows, heads, dim), k and v (batch, keys, kv heads, dim): this rank's rows, as shard() has them; float32, float16,
    bfloat16. layout="bhsd": (batch, heads, rows, dim). Packed sequences: (rows, heads, dim) and cu_seqlens.

    scheme              "ring": keys and values travel around the ring while ranks compute with those that they have;
                        "all_gather": every rank has all of them at once; "ulysses": every rank has all rows of some heads;
                        "auto": the one that sends the fewest bytes (wire_bytes()), the ring where several do
    rows                which rows a rank has: "contiguous", "zigzag" (chunks r and 2 world - 1 - r of 2 world) or "striped"
                        (every world-th). Causal work is even with the last two
    group               a process group of torch.distributed; None: the default one
    seqlen, seqlen_k    the number of rows and of keys of all ranks, whose shares may differ by a row or two, and be empty;
                        None: the rank's own times world, or for keys seqlen where that is given
    cu_seqlens          of packed sequences: the ends of all of them, over all ranks, world-wide: int32 (sequences + 1,) or a
                        list. Contiguous rows are dealt over all sequences together, the other two within each
    cu_seqlens_k        the same of keys; None: cu_seqlens
    causal, window, softcap, softmax_scale, sinks, alibi_slopes, deterministic, num_threads    as libfa.attention has them, of
                        the whole sequence; alibi_slopes not with "striped" rows, but for ulysses
    return_lse          also the logarithm of each row's sum: float32 (batch, heads, rows), packed (heads, rows)
    timeout             seconds that a rank waits for others before it fails
    check               compare types, shapes and settings of all ranks when a kind of call is made for the first time (with
                        other cu_seqlens, too)

    Returns out, or (out, lse). There are gradients of q, k, v and sinks, and from lse; every rank runs the backward pass. That
    of sinks is this rank's part, as for every parameter that ranks share: the whole gradient is the sum over ranks.
    Raises InvalidArgument, with the same text on every rank, where ranks disagree or one of them has a wrong argument, and
    DistributedError where another rank has failed, or has not answered in time: the group cannot be used after that.
    """
    wire = wire_of(group)
    _require_time(timeout)
    try:
        tensors, scheme, setting, kind = _prepared(
            wire,
            q,
            k,
            v,
            scheme,
            rows,
            seqlen,
            seqlen_k,
            cu_seqlens,
            cu_seqlens_k,
            Masking(_causal_name(causal), *(max(side, -1) for side in scalars.pair(window, "window"))),
            sinks,
            alibi_slopes,
            dict(
                softcap=softcap,
                softmax_scale=softmax_scale,
                deterministic=deterministic or torch.are_deterministic_algorithms_enabled(),
                num_threads=num_threads,
            ),
            layout,
        )
    except Exception as error:
        if check:
            refuse(wire, error, timeout)
        raise
    own = tuple(x.shape[-3] for x in tensors)
    _agree(wire, kind, own, functools.partial(_validate, wire, scheme, setting, *tensors, sinks), timeout, check)
    out, lse = _Attention.apply(scheme, wire, timeout, setting, *tensors, sinks)
    if layout == "bhsd":
        out = out.transpose(-3, -2)
    return (out, lse) if return_lse else out


def _prepared(
    wire: Wire,
    q: Any,
    k: Any,
    v: Any,
    scheme: str,
    rows: str,
    seqlen: Any,
    seqlen_k: Any,
    cu_seqlens: Any,
    cu_seqlens_k: Any,
    mask: Masking,
    sinks: Any,
    slopes: Any,
    keywords: dict[str, Any],
    layout: str,
) -> tuple[tuple[Any, Any, Any], str, Setting, dict[str, Any]]:
    """The arguments of attention() as (q, k, v), the scheme, its setting, and a description for the other ranks."""
    if scheme != "auto" and scheme not in _SCHEMES:
        raise InvalidArgument(f"scheme: got {scheme!r}, expected 'auto' or one of {', '.join(map(repr, _SCHEMES))}")
    distributed_rows.require_scheme(rows)
    if layout not in ("bshd", "bhsd"):
        raise InvalidArgument(f"layout: got {layout!r}, expected 'bshd' or 'bhsd'")
    if (q.is_cpu or q.is_cuda) and torch.is_autocast_enabled(q.device.type):
        q, k, v = _torch._autocast(q, k, v)
    is_packed = cu_seqlens is not None
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4 - is_packed:
            expected = "(rows, heads, dim) of packed sequences" if is_packed else "4 dimensions, or cu_seqlens"
            raise InvalidArgument(f"{name}: got shape {tuple(x.shape)}, expected {expected}")
    if layout == "bhsd":
        q, k, v = (x.transpose(-3, -2) for x in (q, k, v))
    if is_packed:
        lengths = _lengths(cu_seqlens, "cu_seqlens")
        lengths_k = lengths if cu_seqlens_k is None else _lengths(cu_seqlens_k, "cu_seqlens_k")
        if len(lengths) != len(lengths_k):
            raise InvalidArgument(f"cu_seqlens_k: got {len(lengths_k)} sequences, expected cu_seqlens' {len(lengths)}")
    else:
        total = q.shape[1] * wire.world if seqlen is None else scalars.integer(seqlen, "seqlen")
        lengths = (total,)
        if seqlen_k is None:
            seqlen_k = k.shape[1] * wire.world if seqlen is None else total
        lengths_k = (scalars.integer(seqlen_k, "seqlen_k"),)
    of_q, of_k = (Rows(x, rows, wire.world, is_packed) for x in (lengths, lengths_k))
    setting = Setting(of_q, of_k, mask, k.shape[-2], slopes, keywords)
    inputs = (q, k, v, sinks)
    gradients = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    if scheme == "auto":
        sizes = Sizes(
            1 if is_packed else q.shape[0],
            q.shape[-2],
            k.shape[-2],
            q.shape[-1],
            v.shape[-1],
            q.dtype.itemsize,
            k.dtype.itemsize,
        )
        scheme = _scheme_of(of_q, of_k, mask, sizes, gradients, slopes is not None)
    kind = {
        "call": f"attention, {scheme}",
        "rows": rows,
        "seqlen": lengths,
        "seqlen_k": lengths_k,
        "causal": mask.causal,
        "window": mask[1:],
        **{name: value for name, value in keywords.items() if name != "num_threads"},
        **_described(q=q, k=k, v=v, sinks=sinks, alibi_slopes=slopes),
        "gradients of": ", ".join(
            n for n, x in zip(("q", "k", "v", "sinks"), inputs) if gradients and x is not None and x.requires_grad
        ),
    }
    return (q, k, v), scheme, setting, kind


@functools.lru_cache(maxsize=1024)
def _scheme_of(rows: Rows, keys: Rows, mask: Masking, sizes: Sizes, gradients: bool, slopes: bool) -> str:
    if slopes and rows.scheme == "striped":
        return "ulysses"
    return distributed_bytes.least(rows, keys, mask, sizes, gradients)


def _causal_name(causal: Any) -> str:
    wanted = scalars.mask_of(causal)
    return next(name for name, value in CAUSAL.items() if scalars.mask_of(value) == wanted)


def _require_time(timeout: Any) -> None:
    if not timeout > 0:
        raise InvalidArgument(f"timeout: got {timeout}, expected seconds above 0")


def _lengths(ends: Any, name: str) -> tuple[int, ...]:
    values = ends.tolist() if isinstance(ends, torch.Tensor) else [int(x) for x in ends]
    if not values or values[0] != 0 or any(a > b for a, b in zip(values, values[1:])):
        raise InvalidArgument(f"{name}: got {values}, expected 0 and the ends of the sequences, which never fall")
    return tuple(b - a for a, b in zip(values, values[1:]))


def _described(**tensors: Any) -> dict[str, Any]:
    """The parts of tensors that ranks have in common: all but the number of rows."""
    found: dict[str, Any] = {}
    for name, x in tensors.items():
        if x is None:
            found[name] = None
        elif x.dim() < 3:
            found[name] = f"{tuple(x.shape)} {x.dtype} on {x.device.type}"
        else:
            sizes = [*x.shape[:-3], "rows", *x.shape[-2:]]
            found[name] = f"({', '.join(map(str, sizes))}) {x.dtype} on {x.device.type}"
    return found


def _agree(wire: Wire, kind: dict[str, Any], own: Any, validate: Callable[[], None], timeout: float, check: bool) -> None:
    key = (*kind.items(), own)
    if key in wire.agreed:
        return
    if check:
        agree(wire, kind, validate, timeout)
    else:
        validate()
    if len(wire.agreed) >= _MOST_KINDS:  # on every rank at the same call
        wire.agreed.clear()
    wire.agreed.add(key)


def _validate(wire: Wire, scheme: str, setting: Setting, q: Any, k: Any, v: Any, sinks: Any) -> None:
    """Raises libfa's errors of this rank's arguments."""
    for name, x, rows in (("q", q, setting.rows), ("k", k, setting.keys), ("v", v, setting.keys)):
        wanted = distributed_rows.count(rows, wire.rank)
        if x.shape[-3] != wanted:
            raise InvalidArgument(
                f"{name}: got {x.shape[-3]} rows, expected rank {wire.rank}'s {wanted} of {rows.total} with "
                f"rows={rows.scheme!r}; shard() deals them, and uneven shares need seqlen (or cu_seqlens)"
            )
    if setting.slopes is not None:
        if tuple(setting.slopes.shape) != (q.shape[-2],):
            raise InvalidArgument(
                f"alibi_slopes: got shape {tuple(setting.slopes.shape)}, expected ({q.shape[-2]},), one a head of q"
            )
        if setting.slopes.requires_grad:
            raise Unsupported(
                "alibi_slopes: requires a gradient, and to libfa slopes are constants; alibi_slopes.detach() works"
            )
        if setting.rows.scheme == "striped" and scheme != "ulysses":
            raise Unsupported(
                f"alibi_slopes: scheme {scheme!r} has none with rows='striped'; rows='zigzag' and scheme='ulysses' do"
            )
    if sinks is not None and tuple(sinks.shape) != (q.shape[-2],):
        raise InvalidArgument(f"sinks: got shape {tuple(sinks.shape)}, expected ({q.shape[-2]},), one a head of q")
    with torch.no_grad():
        given = setting.whole(q.device)
        for name in ("cu_seqlens_q", "cu_seqlens_k"):
            given.pop(name, None)
        parts = [x.detach().narrow(-3, 0, 0) for x in (q, k, v)]
        parts = [x if x.dim() == 4 else x.unsqueeze(0) for x in parts]
        _attention(*parts, sinks=sinks, alibi_slopes=setting.slopes, **given)


def ring_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **keywords: Any) -> Any:
    """attention() around the ring: scheme="ring"."""
    return attention(q, k, v, scheme="ring", **keywords)


def all_gather_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **keywords: Any) -> Any:
    """attention() with an all-gather of keys and values: scheme="all_gather"."""
    return attention(q, k, v, scheme="all_gather", **keywords)


def ulysses_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **keywords: Any) -> Any:
    """attention() with an all-to-all over heads: scheme="ulysses". Heads need not divide evenly, and ranks may share key/value
    heads."""
    return attention(q, k, v, scheme="ulysses", **keywords)


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
    cache               k_scale, v_scale, k_zero, v_zero, dtype_k, dtype_v, k_rope of a quantised cache, as libfa.attention has
                        them
    group, softcap, softmax_scale, num_threads, timeout, check    as attention() has them

    Returns out, shaped as q, or (out, lse): lse float32 (batch, heads, new tokens). local_lengths() says how many of a
    sequence's tokens a rank has, which is where the next one goes. Without gradients. Raises as attention() does.
    """
    wire = wire_of(group)
    _require_time(timeout)
    try:
        lengths = _lengths_of_decode(q, k, v, seqlens, interleave)
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
        _attention(none, k.detach(), v.detach(), seqused_k=torch.zeros_like(lengths, dtype=torch.int32), **given)

    _agree(wire, kind, (tuple(k.shape), tuple(v.shape)), validate, timeout, check)
    with torch.no_grad(), wire.call(timeout):
        out, lse = distributed_decode.decode(wire, q, k, v, lengths, interleave, window, split_heads, sinks, given)
    return (out, lse) if return_lse else out


def _lengths_of_decode(q: Any, k: Any, v: Any, seqlens: Any, interleave: int) -> Any:
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
    distributed_rows.require_scheme(rows)
    if rank is None or world is None:
        wire = wire_of(group)
        rank, world = wire.rank if rank is None else rank, wire.world if world is None else world
    if not 0 <= rank < world:
        raise InvalidArgument(f"rank: got {rank}, expected 0 to {world - 1}")
    lengths = (seqlen,) if cu_seqlens is None else _lengths(cu_seqlens, "cu_seqlens")
    dealt = Rows(lengths, rows, world, cu_seqlens is not None)
    if dealt.total != seqlen:
        raise InvalidArgument(f"cu_seqlens: got sequences of {dealt.total} rows, expected {seqlen}")
    places = torch.arange(seqlen)
    return torch.cat([places[:0], *(places[part] for _, part in distributed_rows.slices(dealt, rank))])


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
    _require_time(timeout)
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
    if scheme not in _SCHEMES:
        raise InvalidArgument(f"scheme: got {scheme!r}, expected one of {', '.join(map(repr, _SCHEMES))}")
    distributed_rows.require_scheme(rows)
    of_q, of_k = (Rows((length,), rows, world, False) for length in (seqlen, seqlen if seqlen_k is None else seqlen_k))
    left, right = scalars.pair(window, "window")
    size = dtype.itemsize
    sizes = Sizes(batch, heads, kv_heads, dim, dim if dim_v is None else dim_v, size, size)
    return distributed_bytes.BY_NAME[scheme](of_q, of_k, Masking(_causal_name(causal), max(left, -1), max(right, -1)), sizes)
