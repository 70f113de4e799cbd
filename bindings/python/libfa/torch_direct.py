"""libfa.attention and libfa.backward as a function of torch's autograd, without an operator: where nothing but autograd looks on, as
the dispatch of an operator takes longer than a small attention. Whatever else looks on in the backward pass gets the operator.
"""

from __future__ import annotations

from typing import Any

import torch

from . import attention as _attention
from . import backward as _backward
from . import torch_operators
from .torch_operators import DIFFERENTIABLE, no_second, unwatched

_FORWARD_ALONE = {"out_dtype", "num_splits", "return_lse", "block_table"}


class _Attention(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, names: tuple[str, ...], keywords: dict[str, Any], q: Any, k: Any, v: Any, *tensors: Any) -> Any:
        given = dict(keywords, **dict(zip(names, tensors))) if names else dict(keywords)
        return_lse = given.pop("return_lse", False)
        out, lse = _attention(q, k, v, return_lse=True, **given)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, *tensors, out, lse)
        ctx.names, ctx.keywords = names, keywords
        return (out, lse) if return_lse else out

    @staticmethod
    def backward(ctx: Any, dout: Any, dlse: Any = None) -> Any:
        q, k, v, *tensors, out, lse = ctx.saved_tensors
        needed = dict(zip(("q", "k", "v", *ctx.names), ctx.needs_input_grad[2:]))
        torch_operators.refuse_gradients({name for name, needs in needed.items() if needs}, "block_table" in ctx.names)
        if dout is None and dlse is None:
            return (None,) * len(ctx.needs_input_grad)
        wanted = [needed.get(name, False) for name in DIFFERENTIABLE]
        if torch.compiler.is_compiling() or not unwatched((q, k, v, dout, dlse, *tensors)):
            found = _by_operator(ctx, dout, dlse, wanted)
        elif torch.is_grad_enabled():
            found = _Gradients.apply(ctx, wanted, dout, dlse, q, k, v, out, lse, *tensors)
        else:
            found = _gradients(ctx, wanted, dout, dlse, q, k, v, out, lse, *tensors)
        gradients = dict(zip(DIFFERENTIABLE, found))
        return None, None, *(gradients.get(name) if need else None for name, need in needed.items())


def _gradients(ctx: Any, wanted: Any, dout: Any, dlse: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, *tensors: Any) -> Any:
    given = {name: x for name, x in ctx.keywords.items() if name not in _FORWARD_ALONE}
    given.update(zip(ctx.names, tensors))
    if torch.are_deterministic_algorithms_enabled():
        given["deterministic"] = True
    if dout is None:  # of lse alone
        dout = out.new_zeros(()).expand(out.shape)
    dq, dk, dv, dbias, dsinks = wanted
    return _backward(q, k, v, out, lse, dout, dlse=dlse, dq=dq, dk=dk, dv=dv, dbias=dbias, dsinks=dsinks, **given)


def _by_operator(ctx: Any, dout: Any, dlse: Any, wanted: Any) -> Any:
    q, k, v, *tensors, out, lse = ctx.saved_tensors
    rest, keywords = torch_operators.arguments({**ctx.keywords, **dict(zip(ctx.names, tensors))})
    keywords = {name: x for name, x in keywords.items() if name not in _FORWARD_ALONE}
    return torch.ops.libfa.attention_backward(dout, dlse, q, k, v, out, lse, *rest, wanted=wanted, **keywords)


class _Gradients(torch.autograd.Function):  # type: ignore[misc]
    """The gradients under create_graph: whoever differentiates them hears that they have none."""

    @staticmethod
    def forward(ctx: Any, of: Any, wanted: Any, *given: Any) -> Any:
        return tuple(_gradients(of, wanted, *given))

    backward = staticmethod(no_second)


def call(q: Any, k: Any, v: Any, names: tuple[str, ...], keywords: dict[str, Any]) -> Any:
    """libfa.attention of tensors, of which some need gradients; names says which keywords are tensors."""
    given = {name: x for name, x in keywords.items() if name not in names} if names else keywords
    return _Attention.apply(names, given, q, k, v, *(keywords[name] for name in names))
