"""libfa under diffusers: `import libfa.diffusers`, then model.set_attention_backend("libfa") or `with attention_backend("libfa"):`, for
transformers whose attention goes through diffusers' dispatcher, to generate and to train. A call that libfa does not support goes to
diffusers' native backend.

diffusers keeps the names of its backends in an Enum, which has no way for further ones: importing this module adds a member.
"""

from __future__ import annotations

from typing import Any

import torch
from diffusers.models.attention_dispatch import AttentionBackendName, _AttentionBackendRegistry

from . import capi, fallback
from .errors import Error
from .torch import attention

NAME = "libfa"
_TYPES = (torch.float32, torch.float16, torch.bfloat16)


def _member() -> Any:
    """AttentionBackendName("libfa")."""
    known = AttentionBackendName._value2member_map_
    if NAME not in known:
        made: Any = str.__new__(AttentionBackendName, NAME)
        made._name_, made._value_, made._sort_order_ = NAME.upper(), NAME, len(known)
        AttentionBackendName._member_map_[made._name_] = known[NAME] = made
        AttentionBackendName._member_names_.append(made._name_)
        type.__setattr__(AttentionBackendName, made._name_, made)
    return known[NAME]


def forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    _parallel_config: Any = None,
) -> Any:
    """Called by diffusers' dispatcher: query (batch, queries, heads, dim), key and value (batch, keys, kv heads, dim) -> out, shaped as
    query, or (out, lse): lse (batch, heads, queries). attn_mask is boolean (True: attend) or is added to the scores: (batch, keys), or
    any shape that broadcasts with (batch, heads, queries, keys). is_causal is aligned top-left, as torch's is."""
    given: dict[str, Any] = {"causal": "top_left" if is_causal else False, "return_lse": return_lse, "softmax_scale": scale}
    if attn_mask is not None:
        if attn_mask.dim() == 2 and attn_mask.shape == (query.shape[0], key.shape[1]):
            attn_mask = attn_mask[:, None, None]
        given["mask" if attn_mask.dtype == torch.bool else "bias"] = attn_mask
    reason = _reason(query, key, value, dropout_p, _parallel_config)
    if reason is None:
        try:
            return attention(query, key, value, **given)
        except (Error, NotImplementedError) as error:
            reason = str(error)
    fallback.say("diffusers", reason)
    native = _AttentionBackendRegistry._backends[AttentionBackendName.NATIVE]
    return native(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, return_lse, _parallel_config=_parallel_config
    )


def _reason(query: Any, key: Any, value: Any, dropout_p: float, parallel: Any) -> str | None:
    """Why libfa does not compute a call; None where it does."""
    if dropout_p:
        return f"dropout_p is {dropout_p}"
    if parallel is not None:
        return "attention is parallel over several devices"
    if query.device.type not in ("cpu", "cuda"):
        return f"query is on the device {query.device}"
    if query.dtype not in _TYPES or key.dtype != query.dtype or value.dtype != query.dtype:
        return f"query, key and value have dtypes {query.dtype}, {key.dtype} and {value.dtype}"
    if max(query.shape[-1], value.shape[-1]) > capi.FA_MAX_HEAD_DIM:
        return f"the head dimension is {query.shape[-1]}"
    return None


_AttentionBackendRegistry.register(_member(), supports_context_parallel=True)(forward)
