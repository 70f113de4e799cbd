"""libfa under Hugging Face transformers: `import libfa.transformers`, then attn_implementation="libfa" for any model whose
attention goes through AttentionInterface, to generate and to train. Sliding windows, softcaps, sinks, grouped heads, padding
and caches are served.
"""

from typing import Any

import torch
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from .torch import attention

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
    """What AttentionInterface calls: query (batch, heads, queries, dim), key and value (batch, kv heads, keys, dim) -> out
    (batch, queries, heads, dim). The mask is boolean or is added to the scores; where transformers leaves it out, several
    queries begin at the first key (aligned top-left) and a single one attends all."""
    if dropout:
        raise NotImplementedError(
            f"dropout: got {dropout}, and libfa has no dropout; config.attention_dropout = 0.0 works, and so does model.eval()"
        )
    if cache is not None:
        raise NotImplementedError("cache: paged caches of continuous batching are not served by libfa.transformers")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    boolean = attention_mask is not None and attention_mask.dtype == torch.bool
    bias = position_bias
    if attention_mask is not None and not boolean:
        bias = attention_mask if bias is None else bias + attention_mask
    windowed = sliding_window is not None and attention_mask is None and is_causal
    out = attention(
        query.transpose(1, 2),
        key.transpose(1, 2),
        value.transpose(1, 2),
        causal="top_left" if is_causal and attention_mask is None and query.shape[2] > 1 else False,
        window=(sliding_window - 1, -1) if windowed and sliding_window is not None else (-1, -1),
        softmax_scale=scaling,
        softcap=softcap or 0.0,
        mask=attention_mask if boolean else None,
        bias=bias,
        sinks=s_aux.float() if s_aux is not None else None,
    )
    return out, None


AttentionInterface.register(NAME, forward)
AttentionMaskInterface.register(NAME, sdpa_mask)  # True where a query attends a key; None where forward() needs no mask
