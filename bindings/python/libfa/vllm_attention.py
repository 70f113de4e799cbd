"""vLLM's backend of attention on the CPU: libfa for decoders over pages of float32, float16 and bfloat16, with sliding windows, softcaps,
sinks and ALiBi; vLLM's own kernel for caches of fp8, encoders and cross-attention. libfa.vllm.register() switches it on.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import torch
from vllm.v1.attention.backend import AttentionType
from vllm.v1.attention.backends.cpu_attn import (
    CPUAttentionBackend,
    CPUAttentionBackendImpl,
    CPUAttentionMetadata,
    CPUAttentionMetadataBuilder,
)

from . import capi, fallback
from .append import append
from .attention import attention

_PLAIN = ("auto", "float16", "bfloat16", "float32")  # types of caches


def _reason(attn_type: str, kv_cache_dtype: str, head_size: int) -> str | None:
    """Why vLLM's kernel computes layers of this kind; None where libfa does. Layers that share a cache are of one kind."""
    if attn_type != AttentionType.DECODER:
        return f"attention is of the type {attn_type}"
    if kv_cache_dtype not in _PLAIN:
        return f"the cache has the type {kv_cache_dtype}"
    if head_size > capi.FA_MAX_HEAD_DIM:
        return f"the head dimension is {head_size}"
    return None


@functools.lru_cache(maxsize=1)
def _threads() -> int:
    """As many as torch has, on the same CPUs. vLLM lets OpenMP bind each of torch's threads to a CPU, this one too, and libfa's, which
    the first call starts, would all inherit its CPU."""
    count: int = torch.get_num_threads()
    own = os.sched_getaffinity(0)
    every = set(own)
    for thread in os.listdir("/proc/self/task"):
        try:
            every |= os.sched_getaffinity(int(thread))
        except ProcessLookupError:  # it has ended meanwhile
            pass
    os.sched_setaffinity(0, every)
    try:
        x = torch.zeros(1, 64, 4 * count, 64)
        attention(x, x, x, num_threads=count)
    finally:
        os.sched_setaffinity(0, own)
    return count


def _pages(kv_cache: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values (pages, page size, kv heads, dim) of vLLM's cache (pages, kv heads, page size, 2 dim), whose pages have all
    keys of a head and then its values, as vLLM's own kernel has them."""
    pages, kv_heads, size, both = kv_cache.shape
    halves = kv_cache.view(pages, kv_heads, 2, size, both // 2).transpose(1, 3)
    return halves[:, :, 0], halves[:, :, 1]


class Builder(CPUAttentionMetadataBuilder):  # type: ignore[misc]
    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> CPUAttentionMetadata:
        """Without the plan that vLLM's kernel needs of each batch, where libfa computes it."""
        other = self.is_cross_attention or self.is_encoder_only_attention
        if other or self.kv_cache_dtype not in _PLAIN or self.head_dim > capi.FA_MAX_HEAD_DIM:
            return super().build(common_prefix_len, common_attn_metadata, fast_build)
        given = common_attn_metadata
        dynamic = given.causal if isinstance(given.causal, torch.Tensor) else None
        return CPUAttentionMetadata(
            num_actual_tokens=given.num_actual_tokens,
            max_query_len=given.max_query_len,
            query_start_loc=given.query_start_loc,
            max_seq_len=given.max_seq_len,
            seq_lens=given.seq_lens,
            block_table=given.block_table_tensor,
            slot_mapping=given.slot_mapping,
            scheduler_metadata=None,
            causal=dynamic is None and given.causal,
            dynamic_causal=dynamic,
        )


class Attention(CPUAttentionBackendImpl):  # type: ignore[misc]
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.reason = _reason(self.attn_type, self.kv_cache_dtype, self.head_size)
        if self.reason is not None:
            fallback.say("vLLM", self.reason)

    def do_kv_cache_update(
        self, layer: Any, key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, slot_mapping: torch.Tensor
    ) -> None:
        if self.reason is not None:
            super().do_kv_cache_update(layer, key, value, kv_cache, slot_mapping)
            return
        tokens = slot_mapping.shape[0]  # there may be more of padding
        append(key[:tokens], value[:tokens], *_pages(kv_cache), slot_mapping=slot_mapping, num_threads=_threads())

    def forward(
        self,
        layer: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: CPUAttentionMetadata | None,
        output: torch.Tensor,
        output_scale: torch.Tensor | None = None,
        output_block_scale: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """query (tokens, heads, dim) -> output, shaped alike, in place."""
        if self.reason is not None or attn_metadata is None or output_scale is not None or output_block_scale is not None:
            rest = (attn_metadata, output, output_scale, output_block_scale)
            found: torch.Tensor = super().forward(layer, query, key, value, kv_cache, *rest)
            return found
        tokens, batch = attn_metadata.num_actual_tokens, attn_metadata
        given: dict[str, Any] = {}
        causal: Any = batch.causal
        if batch.dynamic_causal is not None:  # a bit a sequence: one without a causal mask has its queries after all keys
            lengths = batch.query_start_loc.diff()
            offset = torch.where(batch.dynamic_causal.bool(), batch.seq_lens - lengths, batch.seq_lens)
            causal, given["q_offset"] = True, offset.int()
        attention(
            query[:tokens],
            *_pages(kv_cache),
            out=output[:tokens],
            causal=causal,
            window=(self.sliding_window - 1, 0) if self.sliding_window > 0 else (-1, -1),
            softcap=self.logits_soft_cap,
            softmax_scale=self.scale,
            alibi_slopes=self.alibi_slopes,
            sinks=None if self.sinks is None else self.sinks.float(),
            cu_seqlens_q=batch.query_start_loc,
            seqused_k=batch.seq_lens,
            block_table=batch.block_table,
            max_seqlen_q=batch.max_query_len,
            num_threads=_threads(),
            **given,
        )
        return output


class Backend(CPUAttentionBackend):  # type: ignore[misc]
    @staticmethod
    def get_name() -> str:
        return "CUSTOM"

    @classmethod
    def get_supported_head_sizes(cls) -> list[int]:
        return []  # all

    @classmethod
    def supports_sink(cls) -> bool:
        return True

    @staticmethod
    def get_impl_cls() -> type[Attention]:
        return Attention

    @staticmethod
    def get_builder_cls() -> type[Builder]:
        return Builder
