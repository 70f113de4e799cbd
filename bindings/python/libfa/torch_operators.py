"""libfa::attention and libfa::attention_backward, the operators of PyTorch that torch.compile, autograd and torch.func see.
libfa.torch has functions over them.

attention gives out and lse; attention_backward gives dq, dk, dv, dbias and dsinks, empty where they are not wanted. lse has a
gradient, too. Second derivatives, and those of alibi_slopes and of paged keys, raise NotImplementedError.
"""

from __future__ import annotations

from typing import Any

import torch

from . import attention as _attention
from . import backward as _backward
from . import fields, scalars
from .errors import Unsupported

# The tensors that may be left out, in the operators' order.
_PAGES = tuple(name for name, rules in fields.TENSORS.items() if rules.form == "pages")
TENSORS = (*(name for name in fields.TENSORS if name not in _PAGES), *fields.ARRAYS, *_PAGES)
CAUSAL: dict[str, Any] = {"": False, "bottom_right": True, "top_left": "top_left"}
CAUSAL_NAMES = dict(zip((scalars.mask_of(value) for value in CAUSAL.values()), CAUSAL))
_INPUTS = ("q", "k", "v", *TENSORS)
DIFFERENTIABLE = fields.GRADIENTS
_CONSTANTS = {name for name, rules in fields.TENSORS.items() if rules.type in fields.FLOATS} - {*DIFFERENTIABLE}
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_FORWARD_ALONE = ("out_dtype", "num_splits")  # keywords that the gradients do not depend on
_OPTIONAL = ", ".join(f"Tensor? {name}=None" for name in TENSORS)
_KEYWORDS = """str causal="", SymInt window_left=-1, SymInt window_right=-1, SymInt attention_chunk=0, float softcap=0.0,
    float? softmax_scale=None, bool bias_before_softcap=False, SymInt max_seqlen_q=0, SymInt max_seqlen_k=0,
    bool deterministic=True, bool batch_invariant=False, str layout="bshd", int num_threads=0"""


def _operator(name: str, function: Any, schema: str) -> Any:
    return torch.library.custom_op(f"libfa::{name}", function, mutates_args=(), schema=schema.replace("\n", ""))


# The dispatcher leaves out arguments that have their default.


def _given(tensors: Any, keywords: dict[str, Any]) -> dict[str, Any]:
    """An operator's optional arguments as keywords of libfa.attention and libfa.backward."""
    given = {**keywords, **dict(zip(TENSORS, tensors))}
    given["causal"] = CAUSAL[given.pop("causal", "")]
    given["window"] = (given.pop("window_left", -1), given.pop("window_right", -1))
    return given


def _forward(q: Any, k: Any, v: Any, *tensors: Any, **keywords: Any) -> tuple[Any, Any]:
    out, lse = _attention(q, k, v, return_lse=True, **_given(tensors, keywords))
    return out, lse


def _fake(q: Any, k: Any, v: Any, *tensors: Any, **keywords: Any) -> tuple[Any, Any]:
    out = q.new_empty(q.shape[:-1] + v.shape[-1:], dtype=keywords.get("out_dtype"))
    rows, heads = (q.shape[-3], q.shape[-2]) if keywords.get("layout", "bshd") == "bshd" else (q.shape[-2], q.shape[-3])
    packed = dict(zip(TENSORS, tensors)).get("cu_seqlens_q") is not None
    return out, q.new_empty((heads, rows) if packed else (q.shape[0], heads, rows), dtype=torch.float32)


def _gradients(
    dout: Any, dlse: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, *tensors: Any, wanted: Any, **keywords: Any
) -> tuple[Any, ...]:
    given = _given(tensors, keywords)
    given.pop("block_table", None)
    if torch.are_deterministic_algorithms_enabled():
        given["deterministic"] = True
    if dout is None:  # of lse alone
        dout = out.new_zeros(()).expand(out.shape)
    asked = dict(zip((f"d{name}" for name in DIFFERENTIABLE), wanted))
    found = _backward(q, k, v, out, lse, dout, dlse=dlse, **asked, **given)
    return tuple(q.new_empty(0) if x is None else x for x in found)


def _fake_gradients(
    dout: Any, dlse: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, *tensors: Any, wanted: Any, **_: Any
) -> tuple[Any, ...]:
    inputs = dict(zip(_INPUTS, (q, k, v, *tensors)))
    return tuple(
        inputs[name].new_empty(inputs[name].shape) if want else q.new_empty(0) for name, want in zip(DIFFERENTIABLE, wanted)
    )


attention = _operator(
    "attention",
    _forward,
    f"(Tensor q, Tensor k, Tensor v, {_OPTIONAL}, *, {_KEYWORDS}, SymInt num_splits=0, ScalarType? out_dtype=None)"
    " -> (Tensor, Tensor)",
)
attention_backward = _operator(
    "attention_backward",
    _gradients,
    f"(Tensor? dout, Tensor? dlse, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, {_OPTIONAL}, *, bool[] wanted, {_KEYWORDS})"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)


def _save(ctx: Any, inputs: Any, keyword_only_inputs: dict[str, Any], output: Any) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs, *output)
    ctx.keywords = {name: x for name, x in keyword_only_inputs.items() if name not in _FORWARD_ALONE}


def _differentiate(ctx: Any, dout: Any, dlse: Any) -> tuple[Any, ...]:
    *inputs, out, lse = ctx.saved_tensors
    needed = {name for name, needs in zip(_INPUTS, ctx.needs_input_grad) if needs}
    refuse_gradients(needed, inputs[_INPUTS.index("block_table")] is not None)
    wanted = [name in needed for name in DIFFERENTIABLE]
    if not any(wanted) or (dout is None and dlse is None):
        return (None,) * len(_INPUTS)
    given = (dout, dlse, *inputs[:3], out, lse, *inputs[3:])
    keywords = dict(ctx.keywords, wanted=wanted)
    found = _Gradients.apply(*given, keywords) if transforming() else torch.ops.libfa.attention_backward(*given, **keywords)
    gradients = {name: x for name, x, want in zip(DIFFERENTIABLE, found, wanted) if want}
    return tuple(gradients.get(name) for name in _INPUTS)


def refuse_gradients(needed: set[str], in_pages: bool) -> None:
    for name in needed & _CONSTANTS:
        slopes = name == "alibi_slopes"
        raise Unsupported(
            f"{name}: requires a gradient, and to libfa {'slopes are constants' if slopes else 'it is a constant'}; "
            f"{name}.detach() works{', or a bias' if slopes else ''}"
        )
    if in_pages:
        raise Unsupported(
            "block_table: libfa computes no gradients where keys and values are in pages; without block_table it does"
        )


def no_second(ctx: Any, *_: Any) -> None:
    raise Unsupported(
        "libfa::attention_backward: libfa computes no second derivatives (create_graph=True, torch.func.hessian); torch's own "
        "scaled_dot_product_attention does, in its math backend"
    )


attention.register_fake(_fake)
attention.register_autograd(_differentiate, setup_context=_save)
attention_backward.register_fake(_fake_gradients)
attention_backward.register_autograd(no_second)


_CONVERTED = {"softcap": scalars.single} | dict.fromkeys(
    ("attention_chunk", "max_seqlen_q", "max_seqlen_k", "num_splits", "num_threads"), scalars.integer
)


def arguments(keywords: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Keywords of libfa.attention as the operator's tensors and keywords."""
    given = dict(keywords)
    given["causal"] = CAUSAL_NAMES[scalars.mask_of(given.get("causal", False))]
    given["window_left"], given["window_right"] = scalars.pair(given.pop("window", (-1, -1)), "window")
    if given.get("softmax_scale") is not None:
        given["softmax_scale"] = scalars.scale(given["softmax_scale"], "softmax_scale")
    for name, convert in _CONVERTED.items():
        if name in given and not isinstance(given[name], int):  # (sizes of a compiled graph stay symbols)
            given[name] = convert(given[name], name)
    inputs = [given.pop(name, None) for name in TENSORS]
    return [torch.tensor(x, dtype=torch.int32) if isinstance(x, (list, tuple)) else x for x in inputs], given


def transforming() -> bool:
    """Whether torch.func transforms the running code."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def unwatched(inputs: tuple[Any, ...]) -> bool:
    """Whether nothing but autograd, no tracer, mode or subclass, has to see the operator."""
    if torch._C._is_tracing() or torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
        return False
    for x in inputs:
        if x is not None and (type(x) not in _PLAIN or not (x.is_cpu or x.is_cuda)):
            return False
    return True


class _Attention(torch.autograd.Function):  # type: ignore[misc]
    """The operator under torch.func, which does not transform operators that register an autograd formula."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*given: Any) -> Any:
        return torch.ops.libfa.attention(*given[:-1], **given[-1])

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _save(ctx, inputs[:-1], inputs[-1], output)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return *_differentiate(ctx, *gradients), None


class _Gradients(torch.autograd.Function):  # type: ignore[misc]
    generate_vmap_rule = True

    @staticmethod
    def forward(*given: Any) -> Any:
        return torch.ops.libfa.attention_backward(*given[:-1], **given[-1])

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    backward = staticmethod(no_second)


def call(inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """(out, lse) of the operator: inputs are q, k, v and each of TENSORS."""
    if not torch.compiler.is_compiling() and transforming():
        return _Attention.apply(*inputs, keywords)
    return torch.ops.libfa.attention(*inputs, **keywords)
