"""FlashInfer's functions and wrappers for a key/value cache in pages, with their names, arguments, defaults and shapes: replace

    import flashinfer          by          import libfa.flashinfer as flashinfer

Tensors of torch, on the CPU; on GPUs untested. lse is a logarithm to base 2, but for lse_base="ln"; rows that attend no key are 0, and
their lse is -inf. Arguments that choose among FlashInfer's kernels (backend, use_tensor_cores, workspaces, hints) change
nothing; fixed_split_size makes results independent of the batch, disable_split_kv leaves keys in one part. Unsupported arguments
raise libfa.Unsupported, a NotImplementedError, which names the argument: position encodings inside of attention (libfa.append
rotates), NVFP4 caches, multi-item scoring, functions of the caller's own (jit_args). There are no gradients.
"""

from __future__ import annotations

import math
from functools import partialmethod
from typing import Any

import torch

from . import errors, scalars
from .append import append
from .attention import attention
from .errors import Error, InvalidArgument
from .flashinfer_plan import caches, heads_last, mask, offsets, packbits, pages, refuse, segment_packbits, unpacked
from .merge import merge

__all__ = [
    "BatchDecodeWithPagedKVCacheWrapper",
    "BatchPrefillWithPagedKVCacheWrapper",
    "BatchPrefillWithRaggedKVCacheWrapper",
    "CUDAGraphBatchDecodeWithPagedKVCacheWrapper",
    "MultiLevelCascadeAttentionWrapper",
    "append_paged_kv_cache",
    "get_batch_indices_positions",
    "get_seq_lens",
    "merge_state",
    "merge_state_in_place",
    "merge_states",
    "packbits",
    "segment_packbits",
    "single_decode_with_kv_cache",
    "single_prefill_with_kv_cache",
]

_LOG2_E = 1 / math.log(2)
_MOST_PARTS = 32  # of one libfa.merge
_NAMES = {"softcap": "logits_soft_cap", "softmax_scale": "sm_scale", "window": "window_left", "mask": "custom_mask"}
_PAGED_NAMES = _NAMES | {"cu_seqlens_q": "qo_indptr", "k": "paged_kv_cache's keys", "v": "paged_kv_cache's values"}
_PAGED_NAMES |= {"block_table": "the table of paged_kv_indices", "seqused_k": "the lengths by paged_kv_last_page_len"}
_RAGGED_NAMES = _NAMES | {"cu_seqlens_q": "qo_indptr", "cu_seqlens_k": "kv_indptr"}
_POSITIONS = "libfa rotates in libfa.append, not inside of attention"


def _options(
    head_dim: int,
    causal: bool,
    sm_scale: float | None,
    window_left: int,
    logits_soft_cap: float | None,
    pos_encoding_mode: str,
) -> dict[str, Any]:
    refuse({"pos_encoding_mode": pos_encoding_mode}, {"pos_encoding_mode": "NONE"}, _POSITIONS)
    return {
        "causal": causal,
        "softmax_scale": head_dim**-0.5 if sm_scale is None else scalars.scale(sm_scale, "sm_scale"),
        "window": (window_left, -1),
        "softcap": logits_soft_cap or 0.0,
    }


def _dtype(given: Any) -> Any:
    return getattr(torch, given) if isinstance(given, str) else given


def _factor(*scales: Any) -> float:
    return math.prod(1.0 if scale is None else float(scale) for scale in scales)


def _attend(
    names: dict[str, str],
    q: Any,
    k: Any,
    v: Any,
    options: dict[str, Any],
    v_scale: Any = None,
    scales: tuple[Any, ...] = (),
    **given: Any,
) -> Any:
    """libfa.attention, whose errors speak of FlashInfer's arguments; scales are factors of the scores, v_scale one of out."""
    options = options | {name: x for name, x in given.items() if x is not None}
    options["softmax_scale"] *= _factor(*scales)
    try:
        result = attention(q, k, v, **options)
    except Error as error:
        raise type(error)(errors.renamed(str(error), names)) from None
    if _factor(v_scale) != 1:
        (result[0] if options.get("return_lse") else result).mul_(_factor(v_scale))
    return result


def _returned(lse: torch.Tensor, given: Any = None, lse_base: str = "log2", lse_layout: str = "NH") -> torch.Tensor:
    """lse (heads, rows) as the caller wants it, in `given` if there is one."""
    for name, value, known in (("lse_base", lse_base, ("log2", "ln")), ("lse_layout", lse_layout, ("NH", "HN"))):
        if value not in known:
            raise InvalidArgument(f"{name}: got {value!r}, expected {known[0]!r} or {known[1]!r}")
    if lse_base == "log2":
        lse = lse.mul_(_LOG2_E)
    if lse_layout == "NH":
        lse = lse.t()
    if given is None:
        return lse.contiguous()
    if given.shape != lse.shape:
        raise InvalidArgument(f"lse: got shape {tuple(given.shape)}, expected {tuple(lse.shape)}")
    returned: torch.Tensor = given.copy_(lse)
    return returned


def _require_shape(x: torch.Tensor, name: str, *expected: int) -> None:
    if tuple(x.shape[-len(expected) :]) != expected:
        raise InvalidArgument(
            f"{name}: got shape {tuple(x.shape)}, expected (..., {', '.join(map(str, expected))}), as planned"
        )


class _Wrapper:
    """A plan, and the tensors of it that stay in their places for a captured graph."""

    def __init__(self, float_workspace_buffer: torch.Tensor, kv_layout: str, use_cuda_graph: bool, jit_args: Any) -> None:
        if kv_layout not in ("NHD", "HND"):
            raise InvalidArgument(f"kv_layout: got {kv_layout!r}, expected 'NHD' or 'HND'")
        refuse({"jit_args": jit_args}, {"jit_args": None}, "libfa compiles no functions of the caller's")
        self.device = float_workspace_buffer.device
        self._kv_layout, self._use_cuda_graph = kv_layout, use_cuda_graph
        self._kept: dict[str, torch.Tensor] = {}
        self._options: dict[str, Any] | None = None
        self._shape: tuple[int, ...] = ()

    @property
    def is_cuda_graph_enabled(self) -> bool:
        return self._use_cuda_graph

    def reset_workspace_buffer(self, float_workspace_buffer: torch.Tensor, int_workspace_buffer: Any = None) -> None:
        """Changes nothing: libfa's calls take the memory that they need."""

    def _planned(self) -> dict[str, Any]:
        if self._options is None:
            raise RuntimeError("run: expected a call of plan() before")
        return self._options

    def _plan_again(self, causal: bool, sm_scale: Any, window_left: int, logits_soft_cap: Any, pos_encoding_mode: str) -> None:
        planned = self._planned()
        causal = causal and "mask" not in planned
        self._options = planned | _options(self._shape[-1], causal, sm_scale, window_left, logits_soft_cap, pos_encoding_mode)

    def _keep(self, name: str, x: torch.Tensor, width: int | None = None) -> torch.Tensor:
        """x on the wrapper's device: where graphs are captured in the same memory after each plan(), with that many columns."""
        if not self._use_cuda_graph:
            return x.to(self.device)
        kept = self._kept.get(name)
        if kept is None:
            shape = x.shape if width is None else (x.shape[0], max(width, x.shape[1]))
            kept = self._kept[name] = torch.zeros(shape, dtype=x.dtype, device=self.device)
        if x.shape[0] != kept.shape[0] or (x.dim() == 2 and x.shape[1] > kept.shape[1]):
            raise InvalidArgument(
                f"plan: got {tuple(x.shape)} for {name}, expected {tuple(kept.shape)} as in the first plan: with use_cuda_graph the "
                "number of sequences stays, and pages fit into the buffer of their indices"
            )
        (kept if x.dim() == 1 else kept[:, : x.shape[1]]).copy_(x)
        return kept

    def _pages(
        self, arrays: tuple[Any, Any, Any], page_size: int, names: tuple[str, str, str], buffer: Any
    ) -> tuple[dict[str, Any], torch.Tensor]:
        indptr, indices, last_page_len = arrays
        table, lengths = pages(indptr, indices, last_page_len, page_size, names)
        width = buffer.numel() if self._use_cuda_graph and buffer is not None else None
        given: dict[str, Any] = {
            "block_table": self._keep("block_table", table, width),
            "seqused_k": self._keep("seqused_k", lengths),
        }
        if not self._use_cuda_graph:
            given["max_seqlen_k"] = int(lengths.max()) if len(lengths) else 0
        return given, lengths


def _splits(fixed_split_size: int | None, disable_split_kv: bool) -> dict[str, Any]:
    if fixed_split_size is not None and fixed_split_size > 0:
        return {"batch_invariant": True}
    return {"num_splits": 1} if disable_split_kv else {}


class BatchPrefillWithPagedKVCacheWrapper(_Wrapper):
    """Attention of packed queries over a cache in pages: plan() describes the batch, run() attends."""

    def __init__(
        self,
        float_workspace_buffer: torch.Tensor,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        qo_indptr_buf: torch.Tensor | None = None,
        paged_kv_indptr_buf: torch.Tensor | None = None,
        paged_kv_indices_buf: torch.Tensor | None = None,
        paged_kv_last_page_len_buf: torch.Tensor | None = None,
        custom_mask_buf: torch.Tensor | None = None,
        mask_indptr_buf: torch.Tensor | None = None,
        backend: str = "auto",
        jit_args: list[Any] | None = None,
        jit_kwargs: dict[str, Any] | None = None,
        variant_owns_mask: bool = False,
    ) -> None:
        """float_workspace_buffer names the device. With use_cuda_graph a plan writes into the memory of the one before, and the table of
        pages takes 4 bytes a sequence and element of paged_kv_indices_buf."""
        super().__init__(float_workspace_buffer, kv_layout, use_cuda_graph, jit_args)
        self._indices_buffer = paged_kv_indices_buf

    def plan(
        self,
        qo_indptr: torch.Tensor,
        paged_kv_indptr: torch.Tensor,
        paged_kv_indices: torch.Tensor,
        paged_kv_last_page_len: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        page_size: int,
        head_dim_vo: int | None = None,
        custom_mask: torch.Tensor | None = None,
        packed_custom_mask: torch.Tensor | None = None,
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        sm_scale: float | None = None,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        q_data_type: Any = "float16",
        kv_data_type: Any = None,
        o_data_type: Any = None,
        non_blocking: bool = True,
        prefix_len_ptr: torch.Tensor | None = None,
        token_pos_in_items_ptr: torch.Tensor | None = None,
        token_pos_in_items_len: int = 0,
        max_item_len_ptr: torch.Tensor | None = None,
        seq_lens: torch.Tensor | None = None,
        seq_lens_q: torch.Tensor | None = None,
        block_tables: torch.Tensor | None = None,
        max_token_per_sequence: int | None = None,
        max_sequence_kv: int | None = None,
        fixed_split_size: int | None = None,
        disable_split_kv: bool = False,
        uniform_q_len: int | None = None,
    ) -> None:
        """qo_indptr, paged_kv_indptr (sequences + 1,), paged_kv_indices (pages,), paged_kv_last_page_len (sequences,), int32. A mask has
        the booleans (queries, keys) of each sequence, one sequence after the other; with it causal is ignored. q's own type counts,
        whatever q_data_type and kv_data_type say."""
        refuse(locals(), {"prefix_len_ptr": None, "token_pos_in_items_ptr": None, "max_item_len_ptr": None})
        masked = custom_mask is not None or packed_custom_mask is not None
        if masked and self._use_cuda_graph:
            raise errors.Unsupported("custom_mask: libfa supports it without use_cuda_graph alone")
        options = _options(head_dim_qk, causal and not masked, sm_scale, window_left, logits_soft_cap, pos_encoding_mode)
        queries = offsets(qo_indptr, "qo_indptr")
        names = ("paged_kv_indptr", "paged_kv_indices", "paged_kv_last_page_len")
        arrays = (paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len)
        paged, lengths = self._pages(arrays, page_size, names, self._indices_buffer)
        if len(lengths) != len(queries) - 1:
            raise InvalidArgument(f"qo_indptr: got {len(queries) - 1} sequences, expected paged_kv_indptr's {len(lengths)}")
        options |= paged | _splits(fixed_split_size, disable_split_kv)
        options["cu_seqlens_q"] = self._keep("cu_seqlens_q", queries.int())
        options["out_dtype"] = _dtype(o_data_type)
        if not self._use_cuda_graph and len(lengths):
            options["max_seqlen_q"] = int(queries.diff().max())
        found = mask(custom_mask, packed_custom_mask, queries.diff(), lengths)
        if found is not None:
            options["mask"] = found.to(self.device)
        self._options, self._shape = options, (int(queries[-1]), num_qo_heads, head_dim_qk)
        self._page = (page_size, num_kv_heads)

    begin_forward = plan

    def run(
        self,
        q: torch.Tensor,
        paged_kv_cache: torch.Tensor | tuple[torch.Tensor, torch.Tensor],
        *args: Any,
        q_scale: Any = None,
        k_scale: Any = None,
        v_scale: Any = None,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        return_lse: bool = False,
        lse_base: str = "log2",
        lse_layout: str = "NH",
        enable_pdl: bool | None = None,
        window_left: int | None = None,
        sinks: torch.Tensor | None = None,
        kv_cache_sf: Any = None,
        skip_softmax_threshold_scale_factor: float | None = None,
        use_fp16_softmax: bool | None = None,
        uses_spcompress: bool | None = None,
    ) -> Any:
        """q (all queries, heads, dim) -> out, or (out, lse): lse (all queries, heads), float32. paged_kv_cache (pages, 2, page size, kv
        heads, dim), with HND (pages, 2, kv heads, page size, dim), or a pair of both without the 2; float8 too, which k_scale and
        v_scale, numbers, multiply. sinks (heads,), float32."""
        refuse(locals(), {"args": (), "kv_cache_sf": None, "skip_softmax_threshold_scale_factor": None})
        options = self._planned()
        _require_shape(q, "q", *self._shape)
        k, v = caches(paged_kv_cache, self._kv_layout)
        _require_page(k, self._page, self._kv_layout)
        given = {"sinks": sinks, "out": out, "return_lse": return_lse, "window": _window(window_left)}
        result = _attend(_PAGED_NAMES, q, k, v, options, v_scale, (q_scale, k_scale), **given)
        return (result[0], _returned(result[1], lse, lse_base, lse_layout)) if return_lse else result

    run_return_lse = partialmethod(run, return_lse=True)

    def forward(
        self,
        q: torch.Tensor,
        paged_kv_cache: torch.Tensor | tuple[torch.Tensor, torch.Tensor],
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        k_scale: float | None = None,
        v_scale: float | None = None,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        *,
        return_lse: bool = False,
    ) -> Any:
        """run() with these options in the place of plan()'s, from now on."""
        self._plan_again(causal, sm_scale, window_left, logits_soft_cap, pos_encoding_mode)
        return self.run(q, paged_kv_cache, k_scale=k_scale, v_scale=v_scale, return_lse=return_lse)

    forward_return_lse = partialmethod(forward, return_lse=True)


def _window(left: int | None) -> tuple[int, int] | None:
    return None if left is None else (left, -1)


def _require_page(k: torch.Tensor, planned: tuple[int, int], kv_layout: str) -> None:
    if tuple(k.shape[1:3]) != planned:
        size, heads = k.shape[1:3]
        raise InvalidArgument(
            f"paged_kv_cache: got pages of {size} rows with {heads} heads, read as {kv_layout}, expected {planned[0]} rows with {planned[1]} "
            "heads, as planned"
        )


class BatchPrefillWithRaggedKVCacheWrapper(_Wrapper):
    """Attention of packed queries over packed keys: plan() describes the batch, run() attends."""

    def __init__(
        self,
        float_workspace_buffer: torch.Tensor,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        qo_indptr_buf: torch.Tensor | None = None,
        kv_indptr_buf: torch.Tensor | None = None,
        custom_mask_buf: torch.Tensor | None = None,
        mask_indptr_buf: torch.Tensor | None = None,
        backend: str = "auto",
        jit_args: list[Any] | None = None,
        jit_kwargs: dict[str, Any] | None = None,
        variant_owns_mask: bool = False,
    ) -> None:
        """float_workspace_buffer names the device."""
        super().__init__(float_workspace_buffer, kv_layout, use_cuda_graph, jit_args)

    def plan(
        self,
        qo_indptr: torch.Tensor,
        kv_indptr: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        head_dim_vo: int | None = None,
        custom_mask: torch.Tensor | None = None,
        packed_custom_mask: torch.Tensor | None = None,
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        q_data_type: Any = "float16",
        kv_data_type: Any = None,
        o_data_type: Any = None,
        non_blocking: bool = True,
        prefix_len_ptr: torch.Tensor | None = None,
        token_pos_in_items_ptr: torch.Tensor | None = None,
        token_pos_in_items_len: int = 0,
        max_item_len_ptr: torch.Tensor | None = None,
        fixed_split_size: int | None = None,
        disable_split_kv: bool = False,
        seq_lens: torch.Tensor | None = None,
        seq_lens_q: torch.Tensor | None = None,
        max_token_per_sequence: int | None = None,
        max_sequence_kv: int | None = None,
        v_indptr: torch.Tensor | None = None,
        o_indptr: torch.Tensor | None = None,
        uniform_q_len: int | None = None,
    ) -> None:
        """qo_indptr, kv_indptr (sequences + 1,), int32; masks as in BatchPrefillWithPagedKVCacheWrapper."""
        unsupported = ("prefix_len_ptr", "token_pos_in_items_ptr", "max_item_len_ptr", "v_indptr", "o_indptr")
        refuse(locals(), dict.fromkeys(unsupported))
        masked = custom_mask is not None or packed_custom_mask is not None
        if masked and self._use_cuda_graph:
            raise errors.Unsupported("custom_mask: libfa supports it without use_cuda_graph alone")
        options = _options(head_dim_qk, causal and not masked, sm_scale, window_left, logits_soft_cap, pos_encoding_mode)
        queries, keys = offsets(qo_indptr, "qo_indptr"), offsets(kv_indptr, "kv_indptr")
        if len(queries) != len(keys):
            raise InvalidArgument(f"kv_indptr: got {len(keys) - 1} sequences, expected qo_indptr's {len(queries) - 1}")
        options |= _splits(fixed_split_size, disable_split_kv)
        options["cu_seqlens_q"] = self._keep("cu_seqlens_q", queries.int())
        options["cu_seqlens_k"] = self._keep("cu_seqlens_k", keys.int())
        options["out_dtype"] = _dtype(o_data_type)
        if not self._use_cuda_graph and len(keys) > 1:
            options["max_seqlen_q"], options["max_seqlen_k"] = int(queries.diff().max()), int(keys.diff().max())
        found = mask(custom_mask, packed_custom_mask, queries.diff(), keys.diff())
        if found is not None:
            options["mask"] = found.to(self.device)
        self._options, self._shape = options, (int(queries[-1]), num_qo_heads, head_dim_qk)
        self._kv_heads = num_kv_heads

    begin_forward = plan

    def run(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *args: Any,
        q_scale: float | None = None,
        k_scale: float | None = None,
        v_scale: float | None = None,
        o_scale: float | None = None,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        return_lse: bool = False,
        lse_base: str = "log2",
        lse_layout: str = "NH",
        enable_pdl: bool | None = None,
        kv_cache_sf: Any = None,
    ) -> Any:
        """q (all queries, heads, dim), k and v (all keys, kv heads, dim) whatever kv_layout says, as in FlashInfer -> out, or
        (out, lse): lse (all queries, heads), float32."""
        refuse(locals(), {"args": (), "kv_cache_sf": None, "o_scale": None})
        options = self._planned()
        _require_shape(q, "q", *self._shape)
        _require_shape(k, "k", self._kv_heads, self._shape[-1])
        given = {"out": out, "return_lse": return_lse}
        result = _attend(_RAGGED_NAMES, q, k, v, options, v_scale, (q_scale, k_scale), **given)
        return (result[0], _returned(result[1], lse, lse_base, lse_layout)) if return_lse else result

    run_return_lse = partialmethod(run, return_lse=True)

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        *,
        return_lse: bool = False,
    ) -> Any:
        """run() with these options in the place of plan()'s, from now on."""
        self._plan_again(causal, sm_scale, window_left, logits_soft_cap, pos_encoding_mode)
        return self.run(q, k, v, return_lse=return_lse)

    forward_return_lse = partialmethod(forward, return_lse=True)


class BatchDecodeWithPagedKVCacheWrapper(_Wrapper):
    """Attention of one query a sequence, or of q_len_per_req, over a cache in pages: plan() describes the batch, run() attends."""

    def __init__(
        self,
        float_workspace_buffer: torch.Tensor,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        use_tensor_cores: bool = False,
        paged_kv_indptr_buffer: torch.Tensor | None = None,
        paged_kv_indices_buffer: torch.Tensor | None = None,
        paged_kv_last_page_len_buffer: torch.Tensor | None = None,
        backend: str = "auto",
        jit_args: list[Any] | None = None,
    ) -> None:
        """float_workspace_buffer names the device. With use_cuda_graph a plan writes into the memory of the one before, and the table of
        pages takes 4 bytes a sequence and element of paged_kv_indices_buffer."""
        super().__init__(float_workspace_buffer, kv_layout, use_cuda_graph, jit_args)
        self._indices_buffer, self._use_tensor_cores = paged_kv_indices_buffer, use_tensor_cores

    @property
    def use_tensor_cores(self) -> bool:
        return self._use_tensor_cores

    def plan(
        self,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        last_page_len: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        pos_encoding_mode: str = "NONE",
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        q_data_type: Any = "float16",
        kv_data_type: Any = None,
        o_data_type: Any = None,
        data_type: Any = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        non_blocking: bool = True,
        block_tables: torch.Tensor | None = None,
        seq_lens: torch.Tensor | None = None,
        fixed_split_size: int | None = None,
        disable_split_kv: bool = False,
        q_len_per_req: int = 1,
        is_causal: bool | None = None,
        window_right: int = 0,
    ) -> None:
        """indptr (sequences + 1,), indices (pages,), last_page_len (sequences,), int32. Several queries a sequence are its last tokens, and
        causal."""
        refuse(locals(), {"window_right": 0})
        causal = q_len_per_req > 1
        if is_causal not in (None, causal):
            raise errors.Unsupported(f"is_causal: got {is_causal}, expected {causal} where q_len_per_req is {q_len_per_req}")
        options = _options(head_dim, causal, sm_scale, window_left, logits_soft_cap, pos_encoding_mode)
        names = ("indptr", "indices", "last_page_len")
        paged, lengths = self._pages((indptr, indices, last_page_len), page_size, names, self._indices_buffer)
        options |= paged | _splits(fixed_split_size, disable_split_kv)
        options["out_dtype"] = _dtype(o_data_type)
        self._options, self._shape = options, (len(lengths) * q_len_per_req, num_qo_heads, head_dim)
        self._page, self._queries = (page_size, num_kv_heads), q_len_per_req

    begin_forward = plan

    def run(
        self,
        q: torch.Tensor,
        paged_kv_cache: torch.Tensor | tuple[torch.Tensor, torch.Tensor],
        *args: Any,
        q_scale: Any = None,
        k_scale: Any = None,
        v_scale: Any = None,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        return_lse: bool = False,
        enable_pdl: bool | None = None,
        window_left: int | None = None,
        sinks: torch.Tensor | None = None,
        q_len_per_req: int | None = None,
        skip_softmax_threshold_scale_factor: float | None = None,
        kv_cache_sf: Any = None,
    ) -> Any:
        """q (sequences * q_len_per_req, heads, dim) -> out, or (out, lse): lse (sequences * q_len_per_req, heads), float32. The cache
        as in BatchPrefillWithPagedKVCacheWrapper."""
        refuse(locals(), {"args": (), "kv_cache_sf": None, "skip_softmax_threshold_scale_factor": None})
        options = self._planned()
        if q_len_per_req not in (None, self._queries):
            raise InvalidArgument(f"q_len_per_req: got {q_len_per_req}, expected {self._queries}, as planned")
        if q.shape[0] != self._shape[0]:
            sequences = self._shape[0] // self._queries
            raise InvalidArgument(
                f"q: got {q.shape[0]} rows, expected {self._shape[0]}: {sequences} sequences with q_len_per_req={self._queries}, as planned"
            )
        _require_shape(q, "q", *self._shape)
        k, v = caches(paged_kv_cache, self._kv_layout)
        _require_page(k, self._page, self._kv_layout)
        by_sequence = None if out is None else out.unflatten(0, (-1, self._queries))
        given = {"sinks": sinks, "out": by_sequence, "return_lse": return_lse, "window": _window(window_left)}
        q = q.unflatten(0, (-1, self._queries))
        result = _attend(_PAGED_NAMES, q, k, v, options, v_scale, (q_scale, k_scale), **given)
        attended = (result[0] if return_lse else result).flatten(0, 1) if out is None else out
        if not return_lse:
            return attended
        return attended, _returned(result[1].transpose(0, 1).flatten(1), lse)

    run_return_lse = partialmethod(run, return_lse=True)

    def forward(
        self,
        q: torch.Tensor,
        paged_kv_cache: torch.Tensor | tuple[torch.Tensor, torch.Tensor],
        pos_encoding_mode: str = "NONE",
        q_scale: float | None = None,
        k_scale: float | None = None,
        v_scale: float | None = None,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        *,
        return_lse: bool = False,
    ) -> Any:
        """run() with these options in the place of plan()'s, from now on."""
        self._plan_again(self._queries > 1, sm_scale, window_left, logits_soft_cap, pos_encoding_mode)
        return self.run(q, paged_kv_cache, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale, return_lse=return_lse)

    forward_return_lse = partialmethod(forward, return_lse=True)


class CUDAGraphBatchDecodeWithPagedKVCacheWrapper(BatchDecodeWithPagedKVCacheWrapper):
    """BatchDecodeWithPagedKVCacheWrapper with use_cuda_graph."""

    def __init__(
        self,
        workspace_buffer: torch.Tensor,
        indptr_buffer: torch.Tensor,
        indices_buffer: torch.Tensor,
        last_page_len_buffer: torch.Tensor,
        kv_layout: str = "NHD",
        use_tensor_cores: bool = False,
    ) -> None:
        super().__init__(
            workspace_buffer, kv_layout, True, use_tensor_cores, indptr_buffer, indices_buffer, last_page_len_buffer
        )


class MultiLevelCascadeAttentionWrapper:
    """Attention whose keys are in levels of pages, such as a prefix that sequences share and their own keys: one
    BatchPrefillWithPagedKVCacheWrapper a level, whose results are merged. The last level alone is causal."""

    def __init__(
        self,
        num_levels: int,
        float_workspace_buffer: torch.Tensor,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        qo_indptr_buf_arr: list[torch.Tensor] | None = None,
        paged_kv_indptr_buf_arr: list[torch.Tensor] | None = None,
        paged_kv_indices_buf_arr: list[torch.Tensor] | None = None,
        paged_kv_last_page_len_buf_arr: list[torch.Tensor] | None = None,
    ) -> None:
        """Buffers as in BatchPrefillWithPagedKVCacheWrapper, one a level."""
        buffers: list[Any] = list(paged_kv_indices_buf_arr or [None] * num_levels)
        self._levels = [
            BatchPrefillWithPagedKVCacheWrapper(float_workspace_buffer, kv_layout, use_cuda_graph, paged_kv_indices_buf=buffer)
            for buffer in buffers
        ]

    @property
    def is_cuda_graph_enabled(self) -> bool:
        return self._levels[0].is_cuda_graph_enabled

    def reset_workspace_buffer(self, float_workspace_buffer: torch.Tensor, int_workspace_buffers: Any = None) -> None:
        """Changes nothing: libfa's calls take the memory that they need."""

    def plan(
        self,
        qo_indptr_arr: list[torch.Tensor],
        paged_kv_indptr_arr: list[torch.Tensor],
        paged_kv_indices_arr: list[torch.Tensor],
        paged_kv_last_page_len: list[torch.Tensor],
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        causal: bool = False,
        **options: Any,
    ) -> None:
        """The arrays of BatchPrefillWithPagedKVCacheWrapper.plan, one a level, and its options."""
        arrays = list(zip(qo_indptr_arr, paged_kv_indptr_arr, paged_kv_indices_arr, paged_kv_last_page_len))
        if len(arrays) != len(self._levels):
            raise InvalidArgument(f"qo_indptr_arr: got {len(arrays)} levels, expected {len(self._levels)}")
        for i, (level, given) in enumerate(zip(self._levels, arrays)):
            is_last = i == len(arrays) - 1
            level.plan(*given, num_qo_heads, num_kv_heads, head_dim, page_size, causal=causal and is_last, **options)

    begin_forward = plan

    def run(self, q: torch.Tensor, paged_kv_cache: torch.Tensor | tuple[torch.Tensor, torch.Tensor]) -> Any:
        """q (all queries, heads, dim) -> out; all levels have their pages in the one cache."""
        out, lse = self._levels[-1].run(q, paged_kv_cache, return_lse=True)
        for level in self._levels[:-1]:
            merge_state_in_place(out, lse, *level.run(q, paged_kv_cache, return_lse=True))
        return out

    forward = run


def single_prefill_with_kv_cache(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale_q: torch.Tensor | None = None,
    scale_k: torch.Tensor | None = None,
    scale_v: torch.Tensor | None = None,
    o_dtype: torch.dtype | None = None,
    custom_mask: torch.Tensor | None = None,
    packed_custom_mask: torch.Tensor | None = None,
    causal: bool = False,
    kv_layout: str = "NHD",
    pos_encoding_mode: str = "NONE",
    use_fp16_qk_reduction: bool = False,
    sm_scale: float | None = None,
    window_left: int = -1,
    logits_soft_cap: float | None = None,
    rope_scale: float | None = None,
    rope_theta: float | None = None,
    backend: str = "auto",
    return_lse: bool = False,
    kv_cache_sf: Any = None,
    k_scale: float | None = None,
    v_scale: float | None = None,
) -> Any:
    """q (queries, heads, dim), k and v (keys, kv heads, dim), with HND (kv heads, keys, dim) -> out, or (out, lse): lse (queries,
    heads). custom_mask (queries, keys), or its bits by packbits(); with either causal is ignored."""
    refuse(locals(), dict.fromkeys(("scale_q", "scale_k", "scale_v", "kv_cache_sf")))
    masked = custom_mask is not None or packed_custom_mask is not None
    options = _options(q.shape[-1], causal and not masked, sm_scale, window_left, logits_soft_cap, pos_encoding_mode)
    k, v = heads_last(k, kv_layout), heads_last(v, kv_layout)
    if masked:
        rows, keys = q.shape[0], k.shape[0]
        count = (-(-rows * keys // 8), "bytes") if packed_custom_mask is not None else (rows * keys, "elements")
        name, given = ("custom_mask", custom_mask) if packed_custom_mask is None else ("packed_custom_mask", packed_custom_mask)
        if given.numel() != count[0]:  # type: ignore[union-attr]
            raise InvalidArgument(f"{name}: got {given.numel()} {count[1]}, expected {count[0]}")  # type: ignore[union-attr]
        flat = given.bool() if packed_custom_mask is None else unpacked(packed_custom_mask.flatten(), rows * keys)  # type: ignore[union-attr]
        options["mask"] = flat.reshape(rows, keys)
    options |= {"out_dtype": o_dtype, "return_lse": return_lse}
    result = _attend(_NAMES, q[None], k[None], v[None], options, v_scale, (k_scale,))
    return (result[0][0], _returned(result[1][0])) if return_lse else result[0]


def single_decode_with_kv_cache(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    kv_layout: str = "NHD",
    pos_encoding_mode: str = "NONE",
    use_tensor_cores: bool = False,
    q_scale: float | None = None,
    k_scale: float | None = None,
    v_scale: float | None = None,
    window_left: int = -1,
    logits_soft_cap: float | None = None,
    sm_scale: float | None = None,
    rope_scale: float | None = None,
    rope_theta: float | None = None,
    return_lse: bool = False,
) -> Any:
    """q (heads, dim), k and v as in single_prefill_with_kv_cache -> out, or (out, lse): lse (heads,)."""
    options = _options(q.shape[-1], False, sm_scale, window_left, logits_soft_cap, pos_encoding_mode)
    options["return_lse"] = return_lse
    k, v = heads_last(k, kv_layout), heads_last(v, kv_layout)
    result = _attend(_NAMES, q[None, None], k[None], v[None], options, v_scale, (q_scale, k_scale))
    return (result[0][0, 0], _returned(result[1][0])[0]) if return_lse else result[0, 0]


def _merged(
    outs: Any, lses: Any, out: torch.Tensor | None, lse: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    merged: torch.Tensor
    merged, _ = merge(outs, [x.float().t() for x in lses], base_2=True, out=out, return_lse=True, lse=lse.t(), mask=mask)
    return merged


def merge_state(
    v_a: torch.Tensor, s_a: torch.Tensor, v_b: torch.Tensor, s_b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over the keys of both: v_a, v_b (rows, heads, dim), s_a, s_b (rows, heads), to base 2 -> (out, lse) alike."""
    lse = torch.empty_like(s_a, dtype=torch.float32)
    return _merged([v_a, v_b], [s_a, s_b], None, lse), lse


def merge_state_in_place(
    v: torch.Tensor, s: torch.Tensor, v_other: torch.Tensor, s_other: torch.Tensor, mask: torch.Tensor | None = None
) -> None:
    """merge_state() whose result replaces v and s, which is float32; rows that are False in mask (rows,) stay as they are."""
    _merged([v, v_other], [s, s_other], v, s, None if mask is None else mask.bool()[None])


def merge_states(v: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over the keys of all states: v (rows, states, heads, dim), s (rows, states, heads), to base 2 -> (out, lse) without
    the states."""
    outs, lses = list(v.unbind(1)), list(s.unbind(1))
    lse = torch.empty_like(lses[0], dtype=torch.float32)
    out = _merged(outs[:_MOST_PARTS], lses[:_MOST_PARTS], None, lse)
    for first in range(_MOST_PARTS, len(outs), _MOST_PARTS - 1):
        last = first + _MOST_PARTS - 1
        out = _merged([out, *outs[first:last]], [lse, *lses[first:last]], out, lse)
    return out, lse


def get_seq_lens(kv_indptr: torch.Tensor, kv_last_page_len: torch.Tensor, page_size: int) -> torch.Tensor:
    """The length of each sequence, int32 (sequences,), by its pages: kv_indptr (sequences + 1,), kv_last_page_len (sequences,)."""
    return ((kv_indptr.diff() - 1).clamp(min=0) * page_size + kv_last_page_len).int()


def get_batch_indices_positions(
    append_indptr: torch.Tensor,
    seq_lens: torch.Tensor,
    nnz: int,
    batch_indices: torch.Tensor | None = None,
    positions: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sequence of each of nnz new tokens and its place there, int32 (nnz,): new tokens, which append_indptr (sequences + 1,) divides, are
    the last of the seq_lens (sequences,) tokens. Tokens after the last sequence have -1 and 0."""
    tokens = torch.arange(nnz, device=append_indptr.device)
    ends = append_indptr.long()
    owners = torch.bucketize(tokens, ends[1:], right=True)
    known = owners < len(seq_lens)
    safe = owners.clamp(max=max(0, len(seq_lens) - 1))
    places = tokens + seq_lens.long()[safe] - ends[1:][safe]
    found = torch.where(known, owners, -1).int(), torch.where(known, places, 0).int()
    given = (batch_indices, positions)
    sequence, position = (x if out is None else out.copy_(x) for x, out in zip(found, given))
    return sequence, position


def append_paged_kv_cache(
    append_key: torch.Tensor,
    append_value: torch.Tensor,
    batch_indices: torch.Tensor,
    positions: torch.Tensor,
    paged_kv_cache: torch.Tensor | tuple[torch.Tensor, torch.Tensor],
    kv_indices: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_last_page_len: torch.Tensor,
    kv_layout: str = "NHD",
) -> None:
    """append_key and append_value (tokens, kv heads, dim) into the cache, in place: token i at positions[i] of the sequence
    batch_indices[i], whose pages hold it already; nowhere where that is negative. The cache as in the wrappers' run()."""
    k, v = caches(paged_kv_cache, kv_layout)
    page_size = k.shape[1]
    sequence, place = batch_indices.long(), positions.long()
    page = kv_indptr.long()[sequence.clamp(min=0)] + place // page_size
    slots = kv_indices.long()[page.clamp(max=len(kv_indices) - 1)] * page_size + place % page_size
    slots = torch.where(sequence < 0, -1, slots)
    append(append_key, append_value, k, v, slot_mapping=slots)
