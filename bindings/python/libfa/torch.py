"""libfa on torch's tensors, with gradients: attention(), which is an operator that torch.compile sees through without a graph
break, and scaled_dot_product_attention() with the arguments of torch's own.

Gradients of q, k, v, bias, sinks and lse are computed as far as they are asked for, by fa_backward; deterministic=False lets
it add them up in any order, unless torch.use_deterministic_algorithms(True) has been called. Importing this module imports
torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch.autograd import forward_ad

from . import attention as _attention
from . import (
    lazy,
    scalars,
    torch_direct,
    torch_flops,  # noqa: F401  (registers)
    torch_operators,
    torch_vmap,  # noqa: F401  (registers)
)
from .errors import Error, InvalidArgument, renamed
from .options import LayoutOptions, unexpected
from .torch_operators import TENSORS

if TYPE_CHECKING:
    from typing_extensions import Unpack

_KEYWORDS = {*LayoutOptions.__annotations__, "out_dtype", "return_lse"}


def _eager(q: Any, k: Any, v: Any, keywords: dict[str, Any]) -> bool:
    """Whether nothing but the result is needed: no tracing, transformation, mode, subclass or gradient needs to see the
    operator, whose dispatch takes longer than a small attention."""
    if torch.compiler.is_compiling() or torch._C._is_tracing() or not type(q) is type(k) is type(v) is torch.Tensor:
        return False
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack() or forward_ad._current_level >= 0:
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None or not (q.is_cpu or q.is_cuda):
        return False
    if not torch.is_grad_enabled():
        return True
    tensors = (q, k, v, *(keywords[name] for name in TENSORS if name in keywords)) if keywords else (q, k, v)
    return not any(getattr(x, "requires_grad", False) for x in tensors)


@overload
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    out_dtype: torch.dtype | None = ...,
    return_lse: Literal[False] = ...,
    **_: Unpack[LayoutOptions],
) -> torch.Tensor: ...
@overload
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    out_dtype: torch.dtype | None = ...,
    return_lse: Literal[True],
    **_: Unpack[LayoutOptions],
) -> tuple[torch.Tensor, torch.Tensor]: ...
@overload
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    out_dtype: torch.dtype | None = ...,
    return_lse: bool,
    **_: Unpack[LayoutOptions],
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]: ...
def attention(q: Any, k: Any, v: Any, **keywords: Any) -> Any:
    """libfa.attention on tensors, with gradients, as an operator where torch compiles, traces or transforms: the same keywords,
    less those of memory that the caller lends (out, lse, workspace, parallel_for, stream); out_dtype is a torch.dtype. Under
    autocast q, k and v are of its type, as in torch's own.

    q (batch, sequence, heads, dim), k and v (batch, keys, kv heads, dim); packed (cu_seqlens_*) without the batch;
    layout="bhsd": heads first. Returns out, or (out, lse). Gradients of q, k, v, bias and sinks have their shapes and types;
    those of out and lse may have any strides. Raises as libfa.attention does, and NotImplementedError for gradients of
    alibi_slopes, of paged keys (block_table), second ones, and derivatives in forward mode.
    """
    if (q.is_cpu or q.is_cuda) and torch.is_autocast_enabled(q.device.type):
        q, k, v = _autocast(q, k, v)
    return attend(q, k, v, **keywords)


def attend(q: Any, k: Any, v: Any, **keywords: Any) -> Any:
    """attention(), whatever autocast says."""
    for name in keywords:
        if name not in _KEYWORDS:
            raise unexpected(name)
    if _eager(q, k, v, keywords):
        return _attention(q, k, v, **keywords)
    if not torch.compiler.is_compiling():
        if forward_ad._current_level >= 0:
            _refuse_tangents(q, k, v)
        names = (
            tuple(name for name, x in keywords.items() if isinstance(x, torch.Tensor) and name in TENSORS) if keywords else ()
        )
        if not torch_operators.transforming() and torch_operators.unwatched((q, k, v, *(keywords[name] for name in names))):
            return torch_direct.call(q, k, v, names, keywords)
        for name, x in (("q", q), ("k", k), ("v", v), *((name, keywords[name]) for name in names)):
            lazy.require_strided(x, name)
    return_lse = keywords.pop("return_lse", False)
    inputs, keywords = torch_operators.arguments(keywords)
    out, lse = torch_operators.call((q, k, v, *inputs), keywords)
    return (out, lse) if return_lse else out


def _refuse_tangents(*tensors: Any) -> None:
    """Refuses tangents: torch would take them for 0 in an operator without a forward derivative."""
    if any(forward_ad.unpack_dual(x).tangent is not None for x in tensors):
        raise NotImplementedError("libfa.torch.attention: libfa computes gradients, and no derivatives in forward mode (jvp)")


def _autocast(*tensors: Any) -> list[Any]:
    """tensors as autocast's type, but for those of float64, which it leaves as they are."""
    wanted = torch.get_autocast_dtype(tensors[0].device.type)
    return [x.to(wanted) if x.dtype.is_floating_point and x.dtype != torch.float64 else x for x in tensors]


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """torch.nn.functional.scaled_dot_product_attention: (..., heads, queries, dim); is_causal is aligned top-left, as torch's
    is; attn_mask is boolean (True: attend) or is added to the scores; leading dimensions are broadcast."""
    try:
        return _scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    except (RuntimeError, Error) as error:
        for name, x in (("query", query), ("key", key), ("value", value), ("attn_mask", attn_mask)):
            if x is not None:
                lazy.require_strided(x, name)
        if not isinstance(error, Error):
            raise
        raise type(error)(renamed(str(error), _NAMES)) from None


_NAMES = {"q": "query", "k": "key", "v": "value", "bias": "attn_mask", "mask": "attn_mask"}


def _scaled_dot_product_attention(
    query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: Any, is_causal: Any, scale: Any, enable_gqa: Any
) -> Any:
    if dropout_p:
        raise NotImplementedError(f"dropout_p: got {dropout_p}, and libfa has no dropout; 0.0 works")
    if attn_mask is not None and is_causal:
        raise InvalidArgument("attn_mask: expected None where is_causal is set, as torch's function does")
    given: dict[str, Any] = {"layout": "bhsd"}
    if is_causal:
        given["causal"] = "top_left"
    if scale is not None:
        given["softmax_scale"] = scalars.scale(scale, "scale")
    q, k, v, lead = query, key, value, None
    if not (q.dim() == k.dim() == v.dim() == 4 and q.shape[0] == k.shape[0] == v.shape[0]) or (
        not enable_gqa and not q.shape[1] == k.shape[1] == v.shape[1]
    ):
        q, k, v, attn_mask, lead = _broadcast(q, k, v, attn_mask, 3 if enable_gqa else 2)
    if attn_mask is not None:
        given["mask" if attn_mask.dtype == torch.bool else "bias"] = attn_mask
    out = attention(q, k, v, **given)
    return out if lead is None else out.reshape(*lead, *out.shape[-2:])


def _broadcast(q: Any, k: Any, v: Any, mask: Any, own: int) -> tuple[Any, Any, Any, Any, Any]:
    """q, k, v and mask as (batch, heads, sequence, dim), broadcast in all but their last dimensions, own in number, and the
    leading dimensions of the result."""
    try:
        lead = torch.broadcast_shapes(*(x.shape[:-own] for x in (q, k, v)))
    except RuntimeError:
        raise InvalidArgument(
            f"key: got leading dimensions {tuple(k.shape[:-2])} and value's {tuple(v.shape[:-2])}, expected query's "
            f"{tuple(q.shape[:-2])} or dimensions that broadcast with them; enable_gqa=True allows fewer heads"
        ) from None
    q, k, v = (x.expand(*lead, *x.shape[-own:]) for x in (q, k, v))
    if mask is not None and mask.dim() > 3:
        mask = _four(mask.expand(*q.shape[:-3], *mask.shape[-3:]))
    return _four(q), _four(k), _four(v), mask, q.shape[:-2]


def _four(x: Any) -> Any:
    """(batch, heads, sequence, dim): leading dimensions are folded into the batch, or added."""
    while x.dim() < 4:
        x = x.unsqueeze(0)
    return x.flatten(0, -4)
