"""libfa.distributed.attention: its arguments, the scheme that runs it, and its gradients."""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple

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

SCHEMES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "ring": (ring_forward, ring_backward),
    "all_gather": (gather_forward, gather_backward),
    "ulysses": (ulysses_forward, ulysses_backward),
}


class _Attention(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, scheme: str, wire: Wire, timeout: float, setting: Setting, q: Any, k: Any, v: Any, sinks: Any) -> Any:
        with wire.call(timeout):
            out, lse, saved = SCHEMES[scheme][0](wire, setting, q, k, v, sinks)
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
            found = SCHEMES[scheme][1](wire, setting, saved, dout, dlse, needs)
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
    torch.compile sees an operator, without a graph break; cu_seqlens then need scheme="ring" or "all_gather", and ranks must
    compile the same program.
    Raises InvalidArgument, with the same text on every rank, where ranks disagree or one of them has a wrong argument, and
    DistributedError where another rank has failed, or has not answered in time: the group cannot be used after that.
    """
    given = Given(
        scheme,
        rows,
        seqlen,
        seqlen_k,
        cu_seqlens,
        cu_seqlens_k,
        causal,
        window,
        alibi_slopes,
        softcap,
        softmax_scale,
        deterministic,
        num_threads,
        timeout,
        check,
    )
    if torch.compiler.is_compiling():
        out, lse = _in_graph(group, given, layout, q, k, v, sinks)
    else:
        wire = wire_of(group)
        tensors, scheme, setting = agreed(wire, given, q, k, v, sinks, layout)
        out, lse = _Attention.apply(scheme, wire, timeout, setting, *tensors, sinks)
    if layout == "bhsd":
        out = out.transpose(-3, -2)
    return (out, lse) if return_lse else out


class Given(NamedTuple):
    """The arguments of attention() but its tensors of rows, their layout, and the group."""

    scheme: str
    rows: str
    seqlen: Any
    seqlen_k: Any
    cu_seqlens: Any
    cu_seqlens_k: Any
    causal: Any
    window: tuple[int, int]
    alibi_slopes: Any
    softcap: float
    softmax_scale: float | None
    deterministic: bool
    num_threads: int
    timeout: float
    check: bool
    gradients: str | None = None  # the names of the inputs that have one; None: as the tensors say


def _gradients(**inputs: Any) -> str:
    return ", ".join(n for n, x in inputs.items() if x is not None and x.requires_grad) if torch.is_grad_enabled() else ""


def _autocast(q: Any, k: Any, v: Any) -> Any:
    """q, k and v as autocast has them."""
    return _torch._autocast(q, k, v) if (q.is_cpu or q.is_cuda) and torch.is_autocast_enabled(q.device.type) else (q, k, v)


def _require_constant(slopes: Any) -> None:
    if slopes.requires_grad:
        raise Unsupported("alibi_slopes: requires a gradient, and to libfa slopes are constants; alibi_slopes.detach() works")


def _in_graph(group: Any, given: Given, layout: str, q: Any, k: Any, v: Any, sinks: Any) -> tuple[Any, Any]:
    """(out, lse) of the operator, in which agreed() runs when the graph does."""
    if given.cu_seqlens is not None and given.scheme not in ("ring", "all_gather"):
        raise Unsupported(
            f"cu_seqlens: scheme {given.scheme!r} needs their numbers, which a graph of torch.compile has not; scheme='ring' and "
            "scheme='all_gather' work"
        )
    if given.alibi_slopes is not None:
        _require_constant(given.alibi_slopes)
    gradients = _gradients(q=q, k=k, v=v, sinks=sinks)
    q, k, v = _autocast(q, k, v)
    if layout == "bhsd":
        q, k, v = (x.transpose(-3, -2) for x in (q, k, v))
    ends = [
        torch.tensor(x, dtype=torch.int32) if isinstance(x, (list, tuple)) else x
        for x in (given.cu_seqlens, given.cu_seqlens_k)
    ]
    out, lse, *_ = torch.ops.libfa.distributed_attention(
        q,
        k,
        v,
        sinks,
        given.alibi_slopes,
        *ends,
        group="" if group is None else group.group_name,
        scheme=given.scheme,
        rows=given.rows,
        seqlen=given.seqlen,
        seqlen_k=given.seqlen_k,
        causal="top_left" if given.causal == "top_left" else "bottom_right" if given.causal else "",
        window_left=given.window[0],
        window_right=given.window[1],
        softcap=float(given.softcap),
        softmax_scale=None if given.softmax_scale is None else float(given.softmax_scale),
        deterministic=given.deterministic,
        num_threads=given.num_threads,
        timeout=float(given.timeout),
        check=given.check,
        gradients=gradients,
    )
    return out, lse


def agreed(
    wire: Wire, given: Given, q: Any, k: Any, v: Any, sinks: Any, layout: str = "bshd"
) -> tuple[tuple[Any, Any, Any], str, Setting]:
    """(q, k, v), the scheme and its setting, of arguments on which all ranks agree."""
    require_time(given.timeout)
    try:
        tensors, scheme, setting, kind = prepared(wire, given, q, k, v, sinks, layout)
    except Exception as error:
        if given.check:
            refuse(wire, error, given.timeout)
        raise
    own = tuple(x.shape[-3] for x in tensors)
    agree_once(
        wire, kind, own, functools.partial(_validate, wire, scheme, setting, *tensors, sinks), given.timeout, given.check
    )
    return tensors, scheme, setting


def prepared(
    wire: Wire, given: Given, q: Any, k: Any, v: Any, sinks: Any, layout: str = "bshd"
) -> tuple[tuple[Any, Any, Any], str, Setting, dict[str, Any]]:
    """The arguments of attention() as (q, k, v), the scheme, its setting, and a description for the other ranks."""
    scheme, rows, seqlen, seqlen_k, cu_seqlens, cu_seqlens_k, causal, window, slopes, *_ = given
    mask = dealt_rows.masking_of(causal, window)
    keywords = {
        "softcap": given.softcap,
        "softmax_scale": given.softmax_scale,
        "deterministic": given.deterministic or torch.are_deterministic_algorithms_enabled(),
        "num_threads": given.num_threads,
    }
    if scheme != "auto" and scheme not in SCHEMES:
        raise InvalidArgument(f"scheme: got {scheme!r}, expected 'auto' or one of {', '.join(map(repr, SCHEMES))}")
    dealt_rows.require_scheme(rows)
    if layout not in ("bshd", "bhsd"):
        raise InvalidArgument(f"layout: got {layout!r}, expected 'bshd' or 'bhsd'")
    gradients = _gradients(q=q, k=k, v=v, sinks=sinks) if given.gradients is None else given.gradients
    q, k, v = _autocast(q, k, v)
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
        total = int(q.shape[1]) * wire.world if seqlen is None else scalars.integer(seqlen, "seqlen")
        lengths = (total,)
        if seqlen_k is None:
            seqlen_k = int(k.shape[1]) * wire.world if seqlen is None else total
        lengths_k = (scalars.integer(seqlen_k, "seqlen_k"),)
    of_q, of_k = (Rows(x, rows, wire.world, is_packed) for x in (lengths, lengths_k))
    setting = Setting(of_q, of_k, mask, k.shape[-2], slopes, keywords)
    if scheme == "auto":
        sizes = Sizes(  # int: of a graph's symbols, too
            1 if is_packed else int(q.shape[0]),
            int(q.shape[-2]),
            int(k.shape[-2]),
            int(q.shape[-1]),
            int(v.shape[-1]),
            q.dtype.itemsize,
            k.dtype.itemsize,
        )
        scheme = _scheme_of(of_q, of_k, mask, sizes, gradients != "", slopes is not None)
    kind = {
        "call": f"attention, {scheme}",
        "rows": rows,
        "seqlen": lengths,
        "seqlen_k": lengths_k,
        "causal": mask.causal,
        "window": mask[1:],
        **{name: value for name, value in keywords.items() if name != "num_threads"},
        **_described(q=q, k=k, v=v, sinks=sinks, alibi_slopes=slopes),
        "gradients of": gradients,
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
        _require_constant(setting.slopes)
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
