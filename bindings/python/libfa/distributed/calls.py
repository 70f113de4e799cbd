"""libfa.distributed.attention: its arguments, the scheme that runs it, and its gradients."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch

from .. import attention as _attention
from .. import dealt_bytes, dealt_rows, scalars
from .. import torch as _torch
from ..dealt_bytes import Sizes
from ..dealt_rows import Masking, Rows
from ..errors import InvalidArgument, Unsupported
from .check import agree_once, refuse, require_time
from .local import Needs, Saved, Setting
from .ring import gather_backward, gather_forward, ring_backward, ring_forward
from .shards import lengths_of
from .ulysses import ulysses_backward, ulysses_forward
from .wire import Wire, wire_of

_SCHEMES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "ring": (ring_forward, ring_backward),
    "all_gather": (gather_forward, gather_backward),
    "ulysses": (ulysses_forward, ulysses_backward),
}


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
    require_time(timeout)
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
            dealt_rows.masking_of(causal, window),
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
    agree_once(wire, kind, own, functools.partial(_validate, wire, scheme, setting, *tensors, sinks), timeout, check)
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
    dealt_rows.require_scheme(rows)
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
        lengths = lengths_of(cu_seqlens, "cu_seqlens")
        lengths_k = lengths if cu_seqlens_k is None else lengths_of(cu_seqlens_k, "cu_seqlens_k")
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
    return dealt_bytes.least(rows, keys, mask, sizes, gradients)


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


def _validate(wire: Wire, scheme: str, setting: Setting, q: Any, k: Any, v: Any, sinks: Any) -> None:
    """Raises libfa's errors of this rank's arguments."""
    for name, x, rows in (("q", q, setting.rows), ("k", k, setting.keys), ("v", v, setting.keys)):
        wanted = dealt_rows.count(rows, wire.rank)
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
