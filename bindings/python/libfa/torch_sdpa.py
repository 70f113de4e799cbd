"""libfa as torch's own attention on the CPU: after

    import libfa.torch_sdpa
    torch.nn.attention.activate_flash_attention_impl("libfa")

torch.nn.functional.scaled_dot_product_attention computes by libfa whatever torch gives to its fused kernel for CPUs: float32, float16,
bfloat16, with gradients, masks and torch.compile. torch's registry and torch.library are the public means. A call that libfa does
not support goes to torch's kernel, and so does a small one, which the way through Python would make slower.
restore_flash_attention_impl() removes libfa again.
"""

from __future__ import annotations

from typing import Any

import torch

from . import attention as _attention
from . import backward as _backward
from . import capi, fallback

NAME = "libfa"
_FORWARD = "_scaled_dot_product_flash_attention_for_cpu"
_BACKWARD = f"{_FORWARD}_backward"
_LEAST = 2**20  # heads * queries * keys * dim: with fewer torch's kernel is done before libfa has begun
_TYPES = (torch.float32, torch.float16, torch.bfloat16)


class _Registration:
    """The kernels in torch's dispatcher, and torch's own ones."""

    def __init__(self) -> None:
        self.forward, self.backward = (torch.library.get_kernel(f"aten::{name}", "CPU") for name in (_FORWARD, _BACKWARD))
        self.library: Any = torch.library.Library("aten", "IMPL")
        self.library.impl(_FORWARD, self._forward, "CPU", with_keyset=True)
        self.library.impl(_BACKWARD, self._backward, "CPU", with_keyset=True)

    def remove(self) -> None:
        self.library._destroy()
        self.library = None

    def _forward(
        self,
        keys: Any,
        query: Any,
        key: Any,
        value: Any,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        attn_mask: Any = None,
        scale: float | None = None,
    ) -> Any:
        reason = _reason(query, key, value, dropout_p, attn_mask, scale)
        if reason is None:
            batch, heads, rows, _ = query.shape
            out = torch.empty_like(query)  # with torch's strides, which a compiled graph relies on
            lse = query.new_empty(batch, rows, heads, dtype=torch.float32).transpose(1, 2)
            with torch.no_grad():  # autograd has its node already
                _attention(query, key, value, out=out, lse=lse, **_given(is_causal, attn_mask, scale))
            return out, lse
        fallback.say("torch", f"scaled_dot_product_attention: {reason}")
        return self.forward.call_boxed(keys, query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)

    def _backward(
        self,
        keys: Any,
        grad_out: Any,
        query: Any,
        key: Any,
        value: Any,
        out: Any,
        logsumexp: Any,
        dropout_p: float,
        is_causal: bool,
        *,
        attn_mask: Any = None,
        scale: float | None = None,
    ) -> Any:
        inputs = (query, key, value)
        if _reason(*inputs, dropout_p, attn_mask, scale) is None:
            dq, dk, dv = gradients = tuple(torch.empty_like(x) for x in inputs)
            given = _given(is_causal, attn_mask, scale)
            with torch.no_grad():
                _backward(*inputs, out, logsumexp, grad_out, dq=dq, dk=dk, dv=dv, dbias=False, **given)
            return gradients
        return self.backward.call_boxed(
            keys, grad_out, *inputs, out, logsumexp, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
        )


def _given(is_causal: bool, attn_mask: Any, scale: float | None) -> dict[str, Any]:
    causal = "top_left" if is_causal else False
    return {"layout": "bhsd", "causal": causal, "bias": attn_mask, "softmax_scale": scale}


def _reason(query: Any, key: Any, value: Any, dropout_p: float, attn_mask: Any, scale: float | None) -> str | None:
    """Why libfa does not compute a call; None where it does."""
    if dropout_p:
        return f"dropout_p is {dropout_p}"
    if query.dtype not in _TYPES or key.dtype != query.dtype or value.dtype != query.dtype:
        return f"query, key and value have dtypes {query.dtype}, {key.dtype} and {value.dtype}"
    if attn_mask is not None and attn_mask.dtype not in _TYPES:
        return f"attn_mask has dtype {attn_mask.dtype}"
    if query.shape[-1] > capi.FA_MAX_HEAD_DIM or value.shape[-1] > capi.FA_MAX_HEAD_DIM:
        return f"the head dimension is {query.shape[-1]}"
    if scale is not None and abs(scale) < 2.0**-126:
        return f"scale is {scale}"
    if not query.dim() == key.dim() == value.dim() == 4 or query.shape[1] % key.shape[1]:
        return f"shapes are {tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
    if query.numel() * key.shape[2] < _LEAST:
        return "the call is small"
    return None


torch.nn.attention.register_flash_attention_impl(NAME, register_fn=_Registration)
