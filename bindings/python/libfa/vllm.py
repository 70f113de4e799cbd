"""vLLM's function that writes to a cache, with its name, arguments and shapes, on arrays of any library: replace

from vllm._custom_ops import reshape_and_cache_flash          by          from libfa.vllm import reshape_and_cache_flash
"""

from typing import Any

from .append import append
from .libraries import view
from .options import Array

_TYPES = {"auto": None, "bfloat16": "bfloat16", "float16": "float16", "half": "float16", "float": "float32", "float32": "float32"}


def reshape_and_cache_flash(
    key: Array,
    value: Array,
    key_cache: Array,
    value_cache: Array,
    slot_mapping: Array,
    kv_cache_dtype: str = "auto",
    k_scale: Any = None,
    v_scale: Any = None,
) -> None:
    """key and value (tokens, kv heads, dim), of which slot_mapping (tokens,) may have fewer, into pages (pages, page size, kv
    heads, dim), in place: token i goes to row slot % page size of page slot // page size, or nowhere where its slot is negative.
    Scales belong to quantised caches, which this version has not."""
    if kv_cache_dtype not in _TYPES:
        raise NotImplementedError(f"kv_cache_dtype: got {kv_cache_dtype!r}, expected one of {', '.join(map(repr, _TYPES))}")
    tokens = view(slot_mapping, "slot_mapping")[2][0]
    append(key[:tokens], value[:tokens], key_cache, value_cache, slot_mapping=slot_mapping)  # type: ignore[index]
