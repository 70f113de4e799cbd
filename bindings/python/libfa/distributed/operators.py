"""libfa::distributed_attention and libfa::distributed_attention_backward, attention() as operators that torch.compile sees: ranks
exchange rows within them.

All ranks must compile the same program, as they make the same calls without torch.compile.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed import distributed_c10d

from .. import torch_operators
from ..dealt_heads import heads_of
from ..errors import Unsupported
from .calls import SCHEMES, Given, agreed, prepared
from .local import Needs, Saved
from .wire import Wire, wire_of

_NAMES = ("q", "k", "v", "sinks", "alibi_slopes", "cu_seqlens", "cu_seqlens_k")
_TENSORS = "Tensor q, Tensor k, Tensor v, Tensor? sinks, Tensor? alibi_slopes, Tensor? cu_seqlens, Tensor? cu_seqlens_k"
_KEYWORDS = """str group, str scheme, str rows, SymInt? seqlen, SymInt? seqlen_k, str causal, SymInt window_left,
    SymInt window_right, float softcap, float? softmax_scale, bool deterministic, int num_threads, float timeout, bool check,
    str gradients"""


def _wire(group: str) -> Wire:
    return wire_of(distributed_c10d._resolve_process_group(group) if group else None)


def _given(tensors: tuple[Any, ...], keywords: dict[str, Any]) -> Given:
    given = {**dict(zip(_NAMES[4:], tensors)), **keywords}
    given.pop("group")
    given["causal"] = torch_operators.CAUSAL[given["causal"]]
    given["window"] = given.pop("window_left"), given.pop("window_right")
    return Given(**given)


def _forward(q: Any, k: Any, v: Any, sinks: Any, *tensors: Any, **keywords: Any) -> tuple[Any, ...]:
    wire, given = _wire(keywords["group"]), _given(tensors, keywords)
    inputs, scheme, setting = agreed(wire, given, q, k, v, sinks)
    with wire.call(given.timeout):
        out, lse, saved = SCHEMES[scheme][0](wire, setting, *inputs, sinks)
    # The ring and the all-gather keep the inputs and lse, which an operator must not return.
    return out, lse, *(saved if scheme == "ulysses" else (q.new_empty(0) for _ in range(4)))


def _fake(q: Any, k: Any, v: Any, sinks: Any, *tensors: Any, **keywords: Any) -> tuple[Any, ...]:
    *lead, rows, heads, dim = q.shape
    out = q.new_empty((*lead, rows, heads, v.shape[-1]))
    lse = q.new_empty((*lead, heads, rows), dtype=torch.float32)
    scheme, wire = keywords["scheme"], _wire(keywords["group"])
    if scheme == "auto":
        _, scheme, _, _ = prepared(wire, _given(tensors, keywords), q, k, v, sinks)
    if scheme != "ulysses":
        return out, lse, *(q.new_empty(0) for _ in range(4))
    seqlen, seqlen_k = keywords["seqlen"], keywords["seqlen_k"]
    if seqlen_k is None:
        seqlen_k = k.shape[1] * wire.world if seqlen is None else seqlen
    seqlen = rows * wire.world if seqlen is None else seqlen
    mine = heads_of(int(heads), int(k.shape[-2]), wire.world, wire.rank)
    of_q, of_kv = (part.stop - part.start for part in (mine.q, mine.kv))
    return (
        out,
        lse,
        q.new_empty((*lead, seqlen, of_q, dim)),
        *(x.new_empty((*lead, seqlen_k, of_kv, x.shape[-1])) for x in (k, v)),
        q.new_empty((*lead, of_q, seqlen), dtype=torch.float32),
    )


def _whole(x: Any) -> Any:
    """x in separate memory, as an operator returns it."""
    return x.contiguous() if x.untyped_storage().nbytes() == x.nbytes else x.clone(memory_format=torch.contiguous_format)


def _backward(
    dout: Any, dlse: Any, q: Any, k: Any, v: Any, sinks: Any, *tensors: Any, wanted: Any, **keywords: Any
) -> tuple[Any, ...]:
    *tensors, out, lse, q_all, k_all, v_all, lse_all = tensors  # type: ignore[assignment]
    wire, given = _wire(keywords["group"]), _given(tuple(tensors), keywords)
    inputs, scheme, setting, _ = prepared(wire, given, q, k, v, sinks)
    kept = (q_all, k_all, v_all, lse_all) if scheme == "ulysses" else (*inputs, lse)
    needs = Needs(wanted[0], wanted[1] or wanted[2], wanted[3])
    if dout is None:  # of lse alone
        dout = torch.zeros_like(out)
    with wire.call(given.timeout):
        found = SCHEMES[scheme][1](wire, setting, Saved(*kept, sinks, out), dout, dlse, needs)
    return tuple(_whole(x) if want else q.new_empty(0) for x, want in zip(found, wanted))


def _fake_backward(
    dout: Any, dlse: Any, q: Any, k: Any, v: Any, sinks: Any, *_: Any, wanted: Any, **__: Any
) -> tuple[Any, ...]:
    return tuple(x.new_empty(x.shape) if want else q.new_empty(0) for x, want in zip((q, k, v, sinks), wanted))


def _save(ctx: Any, inputs: Any, keyword_only_inputs: dict[str, Any], output: Any) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs, *output)
    ctx.keywords = keyword_only_inputs


def _differentiate(ctx: Any, dout: Any, dlse: Any, *_: Any) -> tuple[Any, ...]:
    wanted = list(ctx.needs_input_grad[:4])
    found = torch.ops.libfa.distributed_attention_backward(dout, dlse, *ctx.saved_tensors, wanted=wanted, **ctx.keywords)
    return *(x if want else None for x, want in zip(found, wanted)), None, None, None


def _no_second(ctx: Any, *_: Any) -> None:
    raise Unsupported("libfa::distributed_attention_backward: libfa computes no second derivatives")


_SAVED = "Tensor out, Tensor lse, Tensor q_all, Tensor k_all, Tensor v_all, Tensor lse_all"
attention = torch_operators._operator(
    "distributed_attention", _forward, f"({_TENSORS}, *, {_KEYWORDS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
attention_backward = torch_operators._operator(
    "distributed_attention_backward",
    _backward,
    f"(Tensor? dout, Tensor? dlse, {_TENSORS}, {_SAVED}, *, bool[] wanted, {_KEYWORDS}) -> (Tensor, Tensor, Tensor, Tensor)",
)
attention.register_fake(_fake)
attention.register_autograd(_differentiate, setup_context=_save)
attention_backward.register_fake(_fake_backward)
attention_backward.register_autograd(_no_second)
