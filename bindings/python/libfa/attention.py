"""libfa.attention: fa_forward on arrays of any library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, SupportsIndex, TypeVar, overload

from . import capi, fields, quantised, scalars, tensors
from .arrays import CPU, NAMES, dtype_of, type_name
from .errors import Error, InvalidArgument, check
from .libraries import adapter_of, view
from .op import op_of
from .options import Array, Causal, CodesName, Dtype, Layout, MemoryOptions
from .words import in_words

if TYPE_CHECKING:
    from typing_extensions import Unpack

Q = TypeVar("Q", bound=Array)
Out = TypeVar("Out", bound=Array)
OPEN, ZERO = (-1, -1), 0  # defaults, known by identity
_No = Literal[False]
_Yes = Literal[True]

# The result is of out's kind where out is given, else of q's, unless out_dtype asks for another type.


@overload
def attention(
    q: Q, k: Array, v: Array, *, out: None = ..., out_dtype: None = ..., return_lse: _No = ..., **_: Unpack[MemoryOptions]
) -> Q: ...
@overload
def attention(
    q: Q, k: Array, v: Array, *, out: None = ..., out_dtype: None = ..., return_lse: _Yes, **_: Unpack[MemoryOptions]
) -> tuple[Q, Any]: ...
@overload
def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    out: Out,
    out_dtype: Dtype | None = ...,
    return_lse: _No = ...,
    **_: Unpack[MemoryOptions],
) -> Out: ...
@overload
def attention(
    q: Array, k: Array, v: Array, *, out: Out, out_dtype: Dtype | None = ..., return_lse: _Yes, **_: Unpack[MemoryOptions]
) -> tuple[Out, Any]: ...
@overload
def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    out: Array | None = ...,
    out_dtype: Dtype | None = ...,
    return_lse: bool = ...,
    **_: Unpack[MemoryOptions],
) -> Any: ...
def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: Causal = False,
    window: tuple[SupportsIndex, SupportsIndex] = OPEN,
    attention_chunk: SupportsIndex = 0,
    softcap: SupportsFloat = 0.0,
    softmax_scale: SupportsFloat | None = None,
    # generated from schema/: tensors
    bias: Any = None,
    mask: Any = None,
    alibi_slopes: Any = None,
    sinks: Any = None,
    # end
    bias_before_softcap: bool = False,
    # generated from schema/: arrays
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    seqused_q: Any = None,
    seqused_k: Any = None,
    leftpad_k: Any = None,
    kv_batch_idx: Any = None,
    q_offset: Any = None,
    # end
    block_table: Any = None,
    # generated from schema/: quantised
    k_scale: Any = None,
    v_scale: Any = None,
    k_zero: Any = None,
    v_zero: Any = None,
    # end
    dtype_k: CodesName | None = None,
    dtype_v: CodesName | None = None,
    # generated from schema/: tree
    tree_mask: Any = None,
    tree_depth: Any = None,
    # end
    # generated from schema/: rope
    k_rope: Any = None,
    # end
    max_seqlen_q: SupportsIndex = ZERO,
    max_seqlen_k: SupportsIndex = ZERO,
    num_splits: SupportsIndex = ZERO,
    deterministic: bool = True,
    batch_invariant: bool = False,
    hadamard_k: bool = False,
    hadamard_v: bool = False,
    device_pointers: bool = False,
    layout: Layout = "bshd",
    out: Any = None,
    out_dtype: Dtype | None = None,
    return_lse: bool = False,
    lse: Any = None,
    num_threads: SupportsIndex = 0,
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
    k_scale, v_scale, k_zero, v_zero    of quantised k and v, whose elements are (code - zero) * scale: as k and v, each
                        dimension may be 1, the last is a number of groups of channels; float32, float16 or bfloat16
    dtype_k, dtype_v    the type of codes in bytes: "int4", "uint4" (two a byte), "q8_0", "q4_0" (ggml's blocks); None: that of
                        the array, of which int8, float8_e4m3fn and float8_e5m2 are quantised
    tree_mask           of causal attention: which new keys each query attends, as bits of int32 words, bit j of word w being the
                        last keys' 32 w + j: (batch, heads, queries, words), dimensions of 1 are repeated or left out at the
                        front; packed (heads, rows, words)
    tree_depth          the depth of each of its tokens: int32 (batch, queries), (queries,) or packed (rows,)
    k_rope              the last elements of keys where k lacks them, of a type of their own, as in caches of latent attention:
                        (batch, keys, kv heads, dim of q less that of k), in pages as k
    max_seqlen_q / _k   0, or a bound of the sequences' lengths
    num_splits          0: chosen
    deterministic       False lets an engine trade bitwise reproducibility for speed
    batch_invariant     a query's bits depend on its own row, keys and mask alone
    hadamard_k, hadamard_v    k, or v, is a cache that append() rotated by a Hadamard matrix under the same keyword: q is rotated
                        likewise, and the result back
    device_pointers     True promises that the GPU may use all memory of the call, which then costs less time on the host; not for
                        arrays of the CPU
    out, out_dtype      the array, or the type ("float16", a dtype of numpy or torch), of the result; None: a new array
                        of q's kind and type
    return_lse, lse     also the natural logarithm of each row's sum: float32 (batch, heads, queries), packed (heads, rows)
    num_threads, parallel_for (addresses of an fa_parallel_for and of its host), workspace (a byte array), stream (an
    address): as in fa.h; None: the stream that q's library is using

    Returns out, or (out, lse). Raises libfa.InvalidArgument (a ValueError), Unsupported, NoDevice, OutOfMemory,
    DriverError; TypeError for arguments that are no arrays; NotImplementedError for arrays that require gradients.
    """
    adapter = adapter_of(q)
    seen_q, seen_k, seen_v = adapter.view(q, "q"), quantised.read(k, "k", dtype_k), quantised.read(v, "v", dtype_v)
    device = seen_q[4]
    if seen_k[4] != device or seen_v[4] != device:
        tensors.require_device(seen_k, "k", device)
        tensors.require_device(seen_v, "v", device)
    if seen_v[1] != seen_k[1] and not (seen_v[1] in quantised.NAMES or seen_k[1] in quantised.NAMES):
        raise InvalidArgument(f"v: got {type_name(v, seen_v[1])}, expected k's {NAMES[seen_k[1]]}")
    if layout != "bshd" and layout != "bhsd":
        raise InvalidArgument(f"layout: got {layout!r}, expected 'bshd' or 'bhsd'")
    heads_first = layout == "bhsd"
    packed_q, packed_k = cu_seqlens_q is not None, cu_seqlens_k is not None
    shape = seen_q[2]
    if not len(shape) == len(seen_k[2]) == len(seen_v[2]) == 4:
        tensors.require_heads(seen_q, "q", heads_first, packed_q)
        tensors.require_heads(seen_k, "k", heads_first, packed_k)
        tensors.require_heads(seen_v, "v", heads_first, packed_k)
    dim, dim_v = shape[-1], seen_v[2][-1]

    result = out
    if out is None:
        dtype = seen_q[1] if out_dtype is None else dtype_of(out_dtype, "out_dtype")
        result = adapter.empty(q, shape[:-1] + (dim_v,), dtype)
        seen_out = view(result, "out")
    else:
        seen_out = tensors.written(out, "out", device)
        tensors.require_heads(seen_out, "out", heads_first, packed_q)
        if out_dtype is not None and dtype_of(out_dtype, "out_dtype") != seen_out[1]:
            raise InvalidArgument(f"out_dtype: got {out_dtype}, expected out's {NAMES[seen_out[1]]}")

    seen_lse, given_lse = None, lse is not None
    if given_lse:
        seen_lse = tensors.of_rows(tensors.written(lse, "lse", device), "lse")
    elif return_lse:
        rows, heads = (shape[-2], shape[-3]) if heads_first else (shape[-3], shape[-2])
        lse = adapter.empty(q, (heads, rows) if packed_q else (shape[0], heads, rows), capi.FA_F32)
        seen_lse = view(lse, "lse")

    optional = rest = keep = None
    # generated from schema/: inputs
    inputs = (block_table, bias, mask, alibi_slopes, sinks, k_scale, v_scale, k_zero, v_zero, tree_mask, tree_depth, k_rope)
    if not (block_table is bias is mask is alibi_slopes is sinks is k_scale is None) or not (
        v_scale is k_zero is v_zero is tree_mask is tree_depth is k_rope is None
    ):
        optional = tensors.optional_of_forward(inputs, device)
    # end
    seen_rope = optional[-1] if optional else None
    arrays = (cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, leftpad_k, kv_batch_idx, q_offset)
    if (
        not (cu_seqlens_q is cu_seqlens_k is seqused_q is seqused_k is workspace is None)
        or not (leftpad_k is kv_batch_idx is q_offset is None)
        or not (max_seqlen_q is max_seqlen_k is num_splits is ZERO)
        or device != CPU
    ):
        numbers = (max_seqlen_q, max_seqlen_k, num_splits)
        queue = 0 if device == CPU else adapter.stream(q) if stream is None else stream
        rest, keep = tensors.rest(arrays, numbers, workspace, queue, shape[0], device)  # keep lives as long as the call

    flags = (
        (0 if deterministic else capi.FA_FLAG_NONDETERMINISTIC)
        | (capi.FA_FLAG_BATCH_INVARIANT if batch_invariant else 0)
        | (capi.FA_FLAG_BIAS_BEFORE_SOFTCAP if bias_before_softcap else 0)
        | (capi.FA_FLAG_HADAMARD_K if hadamard_k else 0)
        | (capi.FA_FLAG_HADAMARD_V if hadamard_v else 0)
        | (capi.FA_FLAG_DEVICE_POINTERS if device_pointers else 0)
    )
    if window is not OPEN:
        window = scalars.pair(window, "window")
    try:
        op = op_of(
            *device,
            seen_q[1],
            seen_k[1],
            seen_out[1],
            scalars.mask_of(causal),
            dim,
            dim_v,
            *window,
            attention_chunk if type(attention_chunk) is int else scalars.integer(attention_chunk, "attention_chunk"),
            0.0 if softmax_scale is None else scalars.scale(softmax_scale, "softmax_scale"),
            0.0 if type(softcap) is float and not softcap else scalars.single(softcap, "softcap"),
            flags,
            num_threads if type(num_threads) is int else scalars.integer(num_threads, "num_threads"),
            *parallel_for,
            seen_v[1],
            *((capi.FA_DTYPE_DEFAULT, 0) if seen_rope is None else (seen_rope[1], seen_rope[2][-1])),
        )
        status = capi.forward(op.handle, seen_q, seen_k, seen_v, seen_out, seen_lse, heads_first, optional, rest)
        if status:
            check(status)
    except Error as error:
        given = dict(zip((*fields.TENSORS, *fields.QUANTISED, *fields.TREE, *fields.ROPE), inputs), q=q, k=k, v=v, out=out, lse=lse)
        raise type(error)(in_words(str(error), given)) from None
    del keep
    if out is None:
        result = adapter.finish(result)
    else:
        adapter_of(out).wrote(out)
    if given_lse:
        adapter_of(lse).wrote(lse)
    return (result, lse if given_lse else adapter.finish(lse)) if return_lse else result
