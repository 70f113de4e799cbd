"""libfa.attention: fa_forward on arrays of any library."""

from typing import Any

from . import capi, tensors
from .arrays import NAMES, dtype_named
from .errors import InvalidArgument
from .libraries import adapter_of, view
from .op import op_of

_MASKS = {False: capi.FA_MASK_NONE, True: capi.FA_MASK_CAUSAL, "top_left": capi.FA_MASK_CAUSAL_TOP_LEFT}


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool | str = False,
    window: tuple[int, int] = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    softmax_scale: float | None = None,
    bias: Any = None,
    mask: Any = None,
    alibi_slopes: Any = None,
    sinks: Any = None,
    bias_before_softcap: bool = False,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    seqused_q: Any = None,
    seqused_k: Any = None,
    leftpad_k: Any = None,
    kv_batch_idx: Any = None,
    q_offset: Any = None,
    block_table: Any = None,
    max_seqlen_q: int = 0,
    max_seqlen_k: int = 0,
    num_splits: int = 0,
    deterministic: bool = True,
    batch_invariant: bool = False,
    layout: str = "bshd",
    out: Any = None,
    out_dtype: str | None = None,
    return_lse: bool = False,
    lse: Any = None,
    num_threads: int = 0,
    parallel_for: tuple[int, int] = (0, 0),
    workspace: Any = None,
    stream: int | None = None,
) -> Any:
    """softmax(scale * q k^T, masked) v, exactly, without storing the scores; the mathematics is fa.h's.

    q (batch, sequence, heads, dim), k and v (batch, keys, kv heads, dim): numpy, torch, JAX, CuPy, or anything with DLPack,
    __cuda_array_interface__ or the buffer protocol; float32, float16 or bfloat16; any strides; never copied.
    layout="bhsd": (batch, heads, sequence, dim). Packed sequences (cu_seqlens_*) may leave out the batch of 1.

    causal              True: aligned bottom-right (the last query attends every key); "top_left": query 0 attends key 0
    window              (left, right): keys to either side of the query's position; -1 leaves a side open
    attention_chunk     queries attend keys of their own chunk of this many positions
    softcap, softmax_scale (None: 1 / sqrt(dim)), bias_before_softcap
    bias, mask          (batch, heads, queries, keys), dimensions may be 1 or left out at the front; True in mask: attend
    alibi_slopes, sinks (heads,) or (batch, heads), float32
    cu_seqlens_q / _k   packed: int32, one more than there are sequences
    seqused_q / _k, leftpad_k, kv_batch_idx, q_offset    int32, one a sequence
    block_table         paged k and v (pages, page size, kv heads, dim): int32 (batch, pages per sequence)
    max_seqlen_q / _k   0, or a bound of the sequences' lengths
    num_splits          0: chosen
    deterministic       False lets an engine trade bitwise reproducibility for speed
    batch_invariant     a query's bits depend on its own row, keys and mask alone
    out, out_dtype      where, or as what, the result is written; None: a new array of q's kind and type
    return_lse, lse     also the natural logarithm of each row's sum: float32 (batch, heads, queries), packed (heads, rows)
    num_threads, parallel_for (addresses of an fa_parallel_for and of its host), workspace (a byte array), stream (an
    address): as in fa.h; None: the stream that q's library is using

    Returns out, or (out, lse). Raises libfa.InvalidArgument (a ValueError), Unsupported, NoDevice, OutOfMemory,
    DriverError; TypeError for what is no array; NotImplementedError for arrays that require gradients.
    """
    adapter = adapter_of(q)
    seen_q, seen_k, seen_v = adapter.view(q, "q"), view(k, "k"), view(v, "v")
    device = seen_q[4]
    tensors.require_device(seen_k, "k", device)
    tensors.require_device(seen_v, "v", device)
    if seen_v[1] != seen_k[1]:
        raise InvalidArgument(f"v: got {NAMES[seen_v[1]]}, expected k's {NAMES[seen_k[1]]}")
    if layout != "bshd" and layout != "bhsd":
        raise InvalidArgument(f"layout: got {layout!r}, expected 'bshd' or 'bhsd'")
    heads_first = layout == "bhsd"
    packed_q, packed_k = cu_seqlens_q is not None, cu_seqlens_k is not None

    tensor_q = tensors.four(seen_q, "q", heads_first, packed_q)
    tensor_k = tensors.four(seen_k, "k", heads_first, packed_k)
    tensor_v = tensors.four(seen_v, "v", heads_first, packed_k)
    batch, rows, heads, dim = tensor_q[2]
    dim_v = tensor_v[2][3]

    result = out
    if out is None:
        result = adapter.empty(q, seen_q[2][:-1] + (dim_v,), dtype_named(out_dtype, "out_dtype") if out_dtype else seen_q[1])
        seen_out = view(result, "out")
    else:
        seen_out = tensors.written(out, "out", device)
        if out_dtype and dtype_named(out_dtype, "out_dtype") != seen_out[1]:
            raise InvalidArgument(f"out_dtype: got {out_dtype}, expected out's {NAMES[seen_out[1]]}")
    args = capi.fa_args(tensor_q, tensor_k, tensor_v, tensors.four(seen_out, "out", heads_first, packed_q))

    if lse is not None:
        args.lse = tensors.of_lse(tensors.written(lse, "lse", device))
    elif return_lse:
        made = adapter.empty(q, (heads, rows) if packed_q else (batch, heads, rows), capi.FA_F32)
        args.lse = tensors.of_lse(view(made, "lse"))

    if bias is not None:
        args.bias = tensors.aligned_right(bias, "bias", device)
    if mask is not None:
        args.mask = tensors.aligned_right(mask, "mask", device)
    if alibi_slopes is not None:
        args.alibi_slopes = tensors.of_heads(alibi_slopes, "alibi_slopes", device)
    if sinks is not None:
        args.sinks = tensors.of_heads(sinks, "sinks", device)
    if block_table is not None:
        args.block_table = tensors.of_heads(block_table, "block_table", device)
    if not (cu_seqlens_q is cu_seqlens_k is seqused_q is seqused_k is leftpad_k is kv_batch_idx is q_offset is None):
        arrays = (cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, leftpad_k, kv_batch_idx, q_offset)
        keep = tensors.set_arrays(args, arrays, batch, device)  # noqa: F841 (lives as long as the call)
    if max_seqlen_q:
        args.max_seqlen_q = max_seqlen_q
    if max_seqlen_k:
        args.max_seqlen_k = max_seqlen_k
    if num_splits:
        args.num_splits = num_splits
    if workspace is not None:
        args.workspace, args.workspace_size = tensors.of_bytes(workspace, "workspace", device)
    if device[0] == capi.FA_DEVICE_CUDA:
        args.stream = adapter.stream(q) if stream is None else stream

    flags = (
        (0 if deterministic else capi.FA_FLAG_NONDETERMINISTIC)
        | (capi.FA_FLAG_BATCH_INVARIANT if batch_invariant else 0)
        | (capi.FA_FLAG_BIAS_BEFORE_SOFTCAP if bias_before_softcap else 0)
    )
    if causal not in _MASKS:
        raise InvalidArgument(f"causal: got {causal!r}, expected True, False or 'top_left'")
    op = op_of(
        *device,
        seen_q[1],
        seen_k[1],
        seen_out[1],
        _MASKS[causal],
        dim,
        dim_v,
        *window,
        attention_chunk,
        softmax_scale or 0.0,
        softcap,
        flags,
        num_threads,
        *parallel_for,
    )
    op.forward(args)
    if out is None:
        result = adapter.finish(result)
    if not return_lse:
        return result
    return result, adapter.finish(made) if lse is None else lse
