"""libfa under Hugging Face transformers: `import libfa.transformers`, then attn_implementation="libfa" for any model whose
attention goes through AttentionInterface, to generate and to train. Sliding windows, chunks, softcaps, sinks, grouped heads, padding, packed
sequences and caches are supported, and cost no mask of (queries, keys) where libfa has arguments for them.
"""

from typing import Any

import torch
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

from .torch import attention
from .transformers_masks import Mask, mask

NAME = "libfa"


def forward(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    is_causal: bool | None = None,
    s_aux: Any = None,
    position_bias: Any = None,
    cache: Any = None,
    **_: Any,
) -> tuple[Any, None]:
    """Called by AttentionInterface: query (batch, heads, queries, dim), key and value (batch, kv heads, keys, dim) -> out
    (batch, queries, heads, dim). The mask is a Mask, boolean, or added to the scores; where transformers leaves it out, several
    queries begin at the first key (aligned top-left) and a single one attends all."""
    if dropout:
        _refuse_dropout(getattr(module, "config", None), dropout)
    if cache is not None:
        raise NotImplementedError("cache: libfa.transformers does not support the paged caches of continuous batching")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    given = {"softmax_scale": scaling, "softcap": softcap or 0.0, "bias": position_bias}
    given["sinks"] = s_aux.float() if s_aux is not None else None
    if isinstance(attention_mask, Mask) and attention_mask.packed and position_bias is not None:
        attention_mask = attention_mask.build()  # the columns of a bias are keys of the batch entry
    if isinstance(attention_mask, Mask):
        given.update(attention_mask.keywords)
        if not attention_mask.packed:
            return attention(q, k, v, **given), None
        return attention(*(x.flatten(0, 1) for x in (q, k, v)), **given).unflatten(0, q.shape[:2]), None
    if attention_mask is None:
        if is_causal:
            given["causal"] = "top_left" if query.shape[2] > 1 else False
            given["window"] = (-1 if sliding_window is None else sliding_window - 1, -1)
    elif attention_mask.dtype == torch.bool:
        given["mask"] = attention_mask
    else:
        given["bias"] = attention_mask if position_bias is None else position_bias + attention_mask
    return attention(q, k, v, **given), None


def _refuse_dropout(config: Any, dropout: float) -> None:
    fields = [name for name, value in vars(config).items() if "drop" in name and value == dropout] if config else []
    attention_fields = [name for name in fields if "att" in name] or fields
    name = f"{type(config).__name__}.{attention_fields[0]}" if attention_fields else "dropout"
    raise NotImplementedError(f"{name}: got {dropout}, and libfa has no dropout; 0.0 works, and so does model.eval()")


AttentionInterface.register(NAME, forward)
AttentionMaskInterface.register(NAME, mask)
