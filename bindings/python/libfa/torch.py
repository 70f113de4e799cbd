"""libfa as an operator of PyTorch, libfa::attention, which torch.compile sees through without a graph break, and functions
over it: attention(), and scaled_dot_product_attention() with the arguments of torch's own.

Importing this module imports torch. Backward passes raise NotImplementedError: libfa computes no gradients yet.
"""

from typing import Any

import torch

from . import attention as _attention
from .errors import InvalidArgument

# The tensors that may be left out, in the operator's order.
_TENSORS = (
    "bias",
    "mask",
    "alibi_slopes",
    "sinks",
    "cu_seqlens_q",
    "cu_seqlens_k",
    "seqused_q",
    "seqused_k",
    "leftpad_k",
    "kv_batch_idx",
    "q_offset",
    "block_table",
)
_SCHEMA = f"""(Tensor q, Tensor k, Tensor v, {", ".join(f"Tensor? {name}=None" for name in _TENSORS)}, *,
    str causal="", SymInt window_left=-1, SymInt window_right=-1, SymInt attention_chunk=0, float softcap=0.0,
    float softmax_scale=0.0, bool bias_before_softcap=False, SymInt max_seqlen_q=0, SymInt max_seqlen_k=0,
    SymInt num_splits=0, bool deterministic=True, bool batch_invariant=False, str layout="bshd", ScalarType? out_dtype=None,
    bool return_lse=False, int num_threads=0) -> (Tensor, Tensor)"""
_CAUSAL = {"": False, "bottom_right": True, "top_left": "top_left"}
_CAUSAL_NAMES: dict[Any, str] = {value: name for name, value in _CAUSAL.items()}


# The dispatcher leaves out keywords that have their default.


def _forward(q: Any, k: Any, v: Any, *tensors: Any, **given: Any) -> tuple[Any, Any]:
    given.update(zip(_TENSORS, tensors))
    given["causal"] = _CAUSAL[given.pop("causal", "")]
    given["window"] = (given.pop("window_left", -1), given.pop("window_right", -1))
    out_dtype = given.pop("out_dtype", None)
    given["out_dtype"] = str(out_dtype)[6:] if out_dtype is not None else None  # "torch.float32"
    return_lse = given.pop("return_lse", False)
    result = _attention(q, k, v, return_lse=return_lse, **given)
    return result if return_lse else (result, q.new_empty(0, dtype=torch.float32))


def _fake(q: Any, k: Any, v: Any, *tensors: Any, **given: Any) -> tuple[Any, Any]:
    given.update(zip(_TENSORS, tensors))
    out = q.new_empty(q.shape[:-1] + v.shape[-1:], dtype=given.get("out_dtype"))
    if not given.get("return_lse"):
        return out, q.new_empty(0, dtype=torch.float32)
    rows, heads = (q.shape[-3], q.shape[-2]) if given.get("layout", "bshd") == "bshd" else (q.shape[-2], q.shape[-3])
    shape = (heads, rows) if given.get("cu_seqlens_q") is not None else (q.shape[0], heads, rows)
    return out, q.new_empty(shape, dtype=torch.float32)


def _backward(ctx: Any, *gradients: Any) -> None:
    raise NotImplementedError("libfa::attention: libfa computes no gradients yet; run it under torch.no_grad()")


operator: Any = torch.library.custom_op("libfa::attention", _forward, mutates_args=(), schema=_SCHEMA.replace("\n", ""))
operator.register_fake(_fake)
operator.register_autograd(_backward)


def attention(q: Any, k: Any, v: Any, **keywords: Any) -> Any:
    """libfa.attention on tensors, as an operator: the same keywords, less those of memory that the caller lends (out, lse,
    workspace, parallel_for, stream); out_dtype is a torch.dtype."""
    causal = keywords.pop("causal", False)
    if causal not in _CAUSAL_NAMES:
        raise InvalidArgument(f"causal: got {causal!r}, expected True, False or 'top_left'")
    window_left, window_right = keywords.pop("window", (-1, -1))
    scale = keywords.pop("softmax_scale", None)
    out, lse = torch.ops.libfa.attention(
        q,
        k,
        v,
        *(keywords.pop(name, None) for name in _TENSORS),
        causal=_CAUSAL_NAMES[causal],
        window_left=window_left,
        window_right=window_right,
        softmax_scale=scale or 0.0,
        **keywords,
    )
    return (out, lse) if keywords.get("return_lse") else out


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """torch.nn.functional.scaled_dot_product_attention: (..., heads, queries, dim); is_causal is aligned top-left, as torch's
    is; attn_mask is boolean (True: attend) or is added to the scores."""
    if dropout_p:
        raise NotImplementedError(f"dropout_p: got {dropout_p}, and libfa has no dropout; 0.0 works")
    if attn_mask is not None and is_causal:
        raise InvalidArgument("attn_mask: expected None where is_causal is set, as torch's function does")
    lead = query.shape[:-3]
    q, k, v = (_four(x) for x in (query, key, value))
    if q.shape[1] != k.shape[1] and not enable_gqa:
        raise InvalidArgument(f"key: got {k.shape[1]} heads, expected query's {q.shape[1]}; enable_gqa=True allows fewer")
    if attn_mask is not None and attn_mask.dim() > 4:
        attn_mask = attn_mask.expand(*lead, *attn_mask.shape[-3:]).flatten(0, -4)
    boolean = attn_mask is not None and attn_mask.dtype == torch.bool
    out = attention(
        q,
        k,
        v,
        causal="top_left" if is_causal else False,
        softmax_scale=scale,
        mask=attn_mask if boolean else None,
        bias=None if boolean else attn_mask,
        layout="bhsd",
    )
    return out.reshape(*query.shape[:-1], value.shape[-1])


def _four(x: Any) -> Any:
    """(batch, heads, sequence, dim): leading dimensions are folded into the batch, or added."""
    while x.dim() < 4:
        x = x.unsqueeze(0)
    return x.flatten(0, -4)
