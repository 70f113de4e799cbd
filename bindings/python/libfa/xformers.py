"""xformers' memory_efficient_attention by libfa, on CPUs too, with xformers' biases: replace

    from xformers.ops import memory_efficient_attention          by          from libfa.xformers import memory_efficient_attention

The biases are xformers' own objects, or tensors; xformers is not imported. Gradients are those of libfa.torch.attention. Dropout, and
biases without an equivalent here (gappy and paged keys), raise libfa.Unsupported, a NotImplementedError, which names them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Sequence

import torch

from .errors import InvalidArgument, Unsupported
from .merge import merge
from .torch import attention

# Arguments of libfa.torch.attention by the class of a bias.
_DENSE: dict[str, Callable[[Any], dict[str, Any]]] = {
    "LowerTriangularMask": lambda _: {"causal": "top_left"},
    "LowerTriangularFromBottomRightMask": lambda _: {"causal": True},
    "LowerTriangularFromBottomRightLocalAttentionMask": lambda bias: {"causal": True, "window": (bias._window_size - 1, -1)},
    "LowerTriangularMaskWithTensorBias": lambda bias: {"causal": "top_left", "bias": bias._bias},
    "LocalAttentionFromBottomRightMask": lambda bias: {"window": (bias.window_left, bias.window_right)},
}
_PACKED: dict[str, Callable[[Any], dict[str, Any]]] = {
    "BlockDiagonalMask": lambda _: {},
    "BlockDiagonalCausalMask": lambda _: {"causal": "top_left"},
    "BlockDiagonalCausalFromBottomRightMask": lambda _: {"causal": True},
    "BlockDiagonalCausalLocalAttentionMask": lambda bias: {"causal": "top_left", "window": (bias._window_size - 1, -1)},
    "BlockDiagonalCausalLocalAttentionFromBottomRightMask": lambda bias: {
        "causal": True,
        "window": (bias._window_size - 1, -1),
    },
    "BlockDiagonalPaddedKeysMask": lambda bias: {"seqused_k": bias.k_seqinfo.seqlen},
    "BlockDiagonalCausalWithOffsetPaddedKeysMask": lambda bias: {"causal": True, "seqused_k": bias.k_seqinfo.seqlen},
}


def _arguments(bias: Any, device: torch.device) -> tuple[dict[str, Any], bool]:
    """A bias as arguments of libfa.torch.attention, and whether sequences are packed into one batch entry."""
    if bias is None:
        return {}, False
    if isinstance(bias, torch.Tensor):
        return {"mask" if bias.dtype == torch.bool else "bias": bias}, False
    name = type(bias).__name__
    if name in _DENSE:
        return _DENSE[name](bias), False
    if name not in _PACKED:
        known = ", ".join((*_DENSE, *_PACKED))
        raise Unsupported(f"attn_bias: got {name}, expected None, a tensor, or one of {known}")
    given = _PACKED[name](bias)
    for side, lengths in (("q", bias.q_seqinfo), ("k", bias.k_seqinfo)):
        given[f"cu_seqlens_{side}"], given[f"max_seqlen_{side}"] = lengths.seqstart, lengths.max_seqlen
    if "seqused_k" in given:  # of sequences that begin at multiples of their padding
        starts = bias.k_seqinfo.seqstart_py
        given["max_seqlen_k"] = max((end - begin for begin, end in zip(starts, starts[1:])), default=0)
    return {key: x.to(device) if isinstance(x, torch.Tensor) else x for key, x in given.items()}, True


def _four(x: torch.Tensor, name: str, of_keys: bool) -> torch.Tensor:
    """(batch, sequence, heads, dim); of five dimensions (batch, sequence, groups, heads, dim) those of keys that are expanded over the heads
    of a group have one head there."""
    if x.dim() == 3:
        return x.unsqueeze(2)
    if x.dim() == 5:
        return x[:, :, :, 0] if of_keys and (x.stride(3) == 0 or x.shape[3] == 1) else x.flatten(2, 3)
    if x.dim() != 4:
        raise InvalidArgument(
            f"{name}: got shape {tuple(x.shape)}, expected (batch, sequence, heads, dim), or three or five dimensions"
        )
    return x


def _attend(query: Any, key: Any, value: Any, attn_bias: Any, p: float, scale: Any, output_dtype: Any, return_lse: bool) -> Any:
    if p:
        raise Unsupported(f"p: got {p}, and libfa has no dropout; 0.0 works")
    given, packed = _arguments(attn_bias, query.device)
    if given.get("bias") is not None and query.dim() == 3 and given["bias"].dim() == 3:
        given["bias"] = given["bias"].unsqueeze(1)  # (batch, queries, keys)
    if query.dim() == 5 and isinstance(attn_bias, torch.Tensor) and attn_bias.dim() == 5:
        given = {name: x.flatten(1, 2) for name, x in given.items()}  # (batch, groups, heads, queries, keys)
    q, k, v = _four(query, "query", False), _four(key, "key", True), _four(value, "value", True)
    if k.shape[2] != v.shape[2]:  # one of them is expanded
        k, v = _four(key.contiguous(), "key", False), _four(value.contiguous(), "value", False)
    if packed:
        if q.shape[0] != 1 or k.shape[0] != 1:
            raise InvalidArgument(f"query: got batch size {q.shape[0]}, expected 1 with a {type(attn_bias).__name__}")
        q, k, v = q[0], k[0], v[0]
    if output_dtype is not None:
        given["out_dtype"] = output_dtype
    result: Any = attention(q, k, v, softmax_scale=scale, return_lse=return_lse, **given)
    out, lse = result if return_lse else (result, None)
    out = out.reshape(*query.shape[:-1], value.shape[-1])
    if lse is None:
        return out
    lse = lse[None] if packed else lse
    if query.dim() == 3:
        return out, lse[:, 0]
    return out, lse.unflatten(1, query.shape[2:4]) if query.dim() == 5 else lse


def memory_efficient_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: Any = None,
    p: float = 0.0,
    scale: float | None = None,
    *,
    op: Any = None,
    output_dtype: torch.dtype | None = None,
) -> Any:
    """query (batch, queries, heads, dim), key and value (batch, keys, heads, dim); without heads; or (batch, sequence, groups, heads, dim),
    where keys that are expanded over heads are not copied -> out, shaped as query. attn_bias: an xformers bias, or a tensor that broadcasts
    with (batch, heads, queries, keys): added to the scores, or boolean (True: attend). op changes nothing."""
    return _attend(query, key, value, attn_bias, p, scale, output_dtype, False)


memory_efficient_attention_forward = memory_efficient_attention


def memory_efficient_attention_forward_requires_grad(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: Any = None,
    p: float = 0.0,
    scale: float | None = None,
    *,
    op: Any = None,
    output_dtype: torch.dtype | None = None,
) -> Any:
    """memory_efficient_attention() -> (out, lse): lse (batch, heads, queries), float32, a natural logarithm."""
    return _attend(query, key, value, attn_bias, p, scale, output_dtype, True)


memory_efficient_attention_partial = memory_efficient_attention_forward_requires_grad


def merge_attentions(
    attn_split: torch.Tensor | Sequence[torch.Tensor],
    lse_split: torch.Tensor | Sequence[torch.Tensor],
    write_lse: bool = True,
    output_dtype: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Attention over all keys of parts (batch, queries, heads, dim), or with groups before heads, and their lse (batch, heads, queries)
    -> (out, lse), or (out, None) without write_lse. Without gradients."""
    outs, lses = list(attn_split), list(lse_split)
    shape = outs[0].shape
    if len(shape) == 5:
        outs, lses = [x.flatten(2, 3) for x in outs], [x.flatten(1, 2) for x in lses]
    with torch.no_grad():
        out, lse = merge(outs, lses, out_dtype=output_dtype, return_lse=True)
    if len(shape) == 5:
        out, lse = out.reshape(shape), lse.unflatten(1, shape[2:4])
    return out, lse if write_lse else None
