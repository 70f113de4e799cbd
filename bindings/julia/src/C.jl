# fa.h in Julia. Written by gen/generate.jl from include/fa.h: `scripts/generate-bindings.sh julia` rewrites it.

"""
The C interface as it is: the names, structures and functions of fa.h, documented as they are there. A structure
is passed as a `Ref`, and the caller keeps the targets of its pointers alive.
"""
module C

import ..LibFA: address

const FA_VERSION_MAJOR = 0
const FA_VERSION_MINOR = 1
const FA_VERSION_PATCH = 0
const FA_VERSION_STRING = "0.1.0"
const FA_ABI_VERSION = 0

"The result of a function. Values are fixed forever; treat one that you do not know as an error."
const fa_status = Int32
const FA_OK = Int32(0)
"the call can never work: fa_last_error() names the argument"
const FA_ERROR_INVALID_ARGUMENT = Int32(1)
"legal, but nothing in this build or on this machine supports it"
const FA_ERROR_UNSUPPORTED = Int32(2)
"the device asked for is not there: no driver, no such index, no kernel image"
const FA_ERROR_NO_DEVICE = Int32(3)
"host or device memory is short; nothing was computed"
const FA_ERROR_OUT_OF_MEMORY = Int32(4)
"the device's driver failed: its own name and text are in fa_last_error()"
const FA_ERROR_DRIVER = Int32(5)

"Element types. FA_DTYPE_DEFAULT means the type that the field's comment names."
const fa_dtype = Int32
const FA_DTYPE_DEFAULT = Int32(0)
"IEEE 754 binary32"
const FA_F32 = Int32(1)
"IEEE 754 binary16"
const FA_F16 = Int32(2)
"bfloat16: the upper half of a binary32"
const FA_BF16 = Int32(3)
"one byte, true when not zero"
const FA_BOOL = Int32(4)
"32-bit signed integer"
const FA_I32 = Int32(5)
"64-bit signed integer: positions and slots alone"
const FA_I64 = Int32(6)
"from here on, codes of quantised k and v: an 8-bit signed integer"
const FA_I8 = Int32(7)
"float8_e4m3fn: 4 bits of exponent, 3 of fraction; no infinity; NaN is 0x7f and 0xff"
const FA_E4M3 = Int32(8)
"float8_e5m2: the upper half of a binary16"
const FA_E5M2 = Int32(9)
"two 4-bit signed integers a byte, the first one in its low half"
const FA_I4 = Int32(10)
"the same, unsigned"
const FA_U4 = Int32(11)
"ggml's block_q8_0, 34 bytes: a binary16 scale, then 32 8-bit signed integers"
const FA_Q8_0 = Int32(12)
"""
ggml's block_q4_0, 18 bytes: a binary16 scale, then 16 bytes; byte i has element i in its low half and element 16 + i
in its high half
"""
const FA_Q4_0 = Int32(13)

const fa_device = Int32
"the GPU where the tensors live on one, else the CPU"
const FA_DEVICE_AUTO = Int32(0)
const FA_DEVICE_CPU = Int32(1)
const FA_DEVICE_CUDA = Int32(2)

const fa_mask = Int32
const FA_MASK_NONE = Int32(0)
"aligned bottom-right: the last query attends every key"
const FA_MASK_CAUSAL = Int32(1)
"aligned top-left: query 0 attends key 0 only"
const FA_MASK_CAUSAL_TOP_LEFT = Int32(2)

# fa_desc.flags, any of these or-ed together.
"an engine may trade bitwise reproducibility from run to run for speed"
const FA_FLAG_NONDETERMINISTIC = Int32(1)
"""
a query's bits depend on its own row, keys and mask alone: not on batch, padding or neighbours, nor on how many
queries the call holds (prefill and decode agree). dq, dk and dv of a sequence do not depend on other sequences
"""
const FA_FLAG_BATCH_INVARIANT = Int32(2)
"x = scale * q.k + bias; x = softcap * tanh(x / softcap)"
const FA_FLAG_BIAS_BEFORE_SOFTCAP = Int32(4)
"fa_append rotates k by a Hadamard matrix, fa_forward q"
const FA_FLAG_HADAMARD_K = Int32(8)
"fa_append rotates v by a Hadamard matrix, fa_forward out back"
const FA_FLAG_HADAMARD_V = Int32(16)
"every pointer of a call is one that the device may use; with FA_DEVICE_CUDA alone"
const FA_FLAG_DEVICE_POINTERS = Int32(32)

# fa_backward_args.accumulate, any of these or-ed together: the gradient is added to its tensor's contents.
const FA_ACCUMULATE_DQ = Int32(1)
const FA_ACCUMULATE_DK = Int32(2)
const FA_ACCUMULATE_DV = Int32(4)
const FA_ACCUMULATE_DBIAS = Int32(8)
const FA_ACCUMULATE_DSINKS = Int32(16)

# fa_merge_args.flags.
"every lse, read or written, is a logarithm to base 2"
const FA_MERGE_BASE_2 = Int32(1)

# fa_append_args.flags, any of these or-ed together.
"scales and zeros of new tokens are computed and written; else they are read"
const FA_APPEND_COMPUTE_SCALES = Int32(1)
"pairs are neighbours (GPT-J's rotary embedding); else halves apart (GPT-NeoX's)"
const FA_APPEND_ROTARY_INTERLEAVED = Int32(2)
"the last rotary_dim elements of a row are rotated, not the first"
const FA_APPEND_ROTARY_TAIL = Int32(4)

# Limits.
"of q, k and of v"
const FA_MAX_HEAD_DIM = Int32(576)
const FA_MAX_THREADS = Int32(1024)
const FA_MAX_SPLITS = Int32(1024)
"of fa_merge"
const FA_MAX_PARTS = Int32(32)

"An attention, ready to run. Immutable; shared freely between threads."
struct fa_op end

"""
A view of memory that the caller owns. Frozen: it never grows. data may be NULL where the tensor has no elements.
Where the field that holds it is optional, NULL means absent.

- `data`: the element at index (0, 0, 0, 0)
- `shape`: (batch, sequence, heads, dim), or as the field says
- `stride`: in elements; any sign; 0 repeats (inputs only)
- `dtype`: FA_DTYPE_DEFAULT: the type that the field names
- `reserved`: 0
"""
struct fa_tensor
    data::Ptr{Cvoid}
    shape::NTuple{4,Int64}
    stride::NTuple{4,Int64}
    dtype::fa_dtype
    reserved::Int32
end

"""
`void (*)(void *ctx, int64_t i)`. The host's own thread pool. It must call task(ctx, i) exactly once for every i in
[0, n), on any thread, in any order, possibly one after another, and return when all calls have returned. Tasks never
wait for one another. n <= fa_desc.num_threads. user is fa_desc.parallel_for_user.
"""
const fa_task = Ptr{Cvoid}

"`void (*)(void *user, fa_task task, void *ctx, int64_t n)`."
const fa_parallel_for = Ptr{Cvoid}

"""
An attention, for the life of the op. Initialise with fa_desc_init, then set dtype_q and head_dim at least.

- `struct_size`: set by fa_desc_init
- `device`: FA_DEVICE_AUTO
- `device_index`: 0; which GPU
- `dtype_q`: required: FA_F32, FA_F16 or FA_BF16
- `dtype_kv`: FA_DTYPE_DEFAULT: as dtype_q. May differ from it: an f16 or bf16 cache under f32 queries
- `dtype_out`: FA_DTYPE_DEFAULT: as dtype_q
- `mask`: FA_MASK_NONE
- `head_dim`: required: of q and k, 1 .. FA_MAX_HEAD_DIM
- `head_dim_v`: 0: as head_dim; of v and out, 1 .. FA_MAX_HEAD_DIM
- `window_left`: -1: open; keys before the query's position that it attends
- `window_right`: -1: open; keys after it (a causal mask allows none whatever this says)
- `attention_chunk`: 0: none; queries attend keys of their own chunk of this many positions
- `softmax_scale`: 0: 1 / sqrt(head_dim); finite
- `softcap`: 0: none; positive, finite
- `flags`: 0; FA_FLAG_*
- `num_threads`: 0: FA_NUM_THREADS, else the CPUs that the process may use; at most FA_MAX_THREADS
- `parallel_for`: NULL: the library's own threads
- `parallel_for_user`: NULL; passed to parallel_for
- `dtype_v`: FA_DTYPE_DEFAULT: as dtype_kv, which is k's alone where this is given
- `dtype_k_rope`: FA_DTYPE_DEFAULT: as dtype_q; FA_F32, FA_F16 or FA_BF16
- `head_dim_rope`: 0; 0 .. head_dim - 1: the last elements of keys, which k_rope has
"""
struct fa_desc
    struct_size::Csize_t
    device::fa_device
    device_index::Int32
    dtype_q::fa_dtype
    dtype_kv::fa_dtype
    dtype_out::fa_dtype
    mask::fa_mask
    head_dim::Int64
    head_dim_v::Int64
    window_left::Int64
    window_right::Int64
    attention_chunk::Int64
    softmax_scale::Cfloat
    softcap::Cfloat
    flags::UInt32
    num_threads::Int32
    parallel_for::fa_parallel_for
    parallel_for_user::Ptr{Cvoid}
    dtype_v::fa_dtype
    dtype_k_rope::fa_dtype
    head_dim_rope::Int64
end

"""
One call. Initialise with fa_forward_args_init, then set q, k, v and out at least.

B: sequences. Sq, Sk: rows of q and of k (bias and mask: of the longest sequence, max_seqlen_* where that is given).
Hq, Hkv: heads. D, Dv: head_dim, head_dim_v.

Pointers to int32_t are arrays in memory that the op's device can reach, of B entries unless said otherwise. On the
CPU their contents are checked. On CUDA the host never reads them, so contents out of range cannot be reported.

- `struct_size`: set by fa_forward_args_init
- `q`: (B, Sq, Hq, D), dtype_q; packed: (1, total_q, Hq, D)
- `k`: (B, Sk, Hkv, D), dtype_kv; packed: (1, total_k, Hkv, D); paged: (pages, page_size, Hkv, D); D less
  head_dim_rope
- `v`: as k, with Dv for D; dtype_v
- `out`: (B, Sq, Hq, Dv), dtype_out; packed: (1, total_q, Hq, Dv); no stride 0, no overlap with any input
- `lse`: absent; written: (B, Hq, Sq, 1), packed (1, Hq, total_q, 1); FA_F32; natural logarithm, sink included
- `bias`: absent; (B, Hq, Sq, Sk), each may be 1 (repeated); FA_F32 (default), FA_F16, FA_BF16
- `mask`: absent; shape as bias; FA_BOOL: true = attend
- `alibi_slopes`: absent; (B or 1, Hq, 1, 1); FA_F32
- `sinks`: absent; (B or 1, Hq, 1, 1); FA_F32: a logit per head in the softmax's denominator
- `block_table`: absent; (B, pages per sequence, 1, 1); FA_I32; entries past the used pages are never read
- `cu_seqlens_q`: NULL; num_seqs + 1 entries: the first 0 or more, never falling, the last at most total_q
- `cu_seqlens_k`: NULL; the same for k and v
- `seqused_q`: NULL; 0 .. rows of the sequence
- `seqused_k`: NULL; 0 .. keys of the sequence, leftpad_k included
- `leftpad_k`: NULL; 0 .. used keys of the sequence
- `kv_batch_idx`: NULL; 0 .. shape[0] of k - 1
- `q_offset`: NULL; position of query 0 relative to key 0, of any sign
- `num_seqs`: 0; required with cu_seqlens_*: the number of sequences B (0 only where q has no rows)
- `max_seqlen_q`: 0: unknown (all rows of q); else no sequence has more queries
- `max_seqlen_k`: 0: unknown (all rows of k, or table width x page size); else no sequence has more keys
- `num_splits`: 0: chosen; else the keys of each sequence are worked on in this many parts, at most FA_MAX_SPLITS
- `reserved`: 0
- `workspace`: NULL: allocated by the call; else fa_forward_workspace_size bytes, 256-byte aligned
- `workspace_size`: 0; bytes behind workspace
- `stream`: NULL; the CUDA stream (CUstream, cudaStream_t); ignored on the CPU
- `k_scale`: absent; (B, Sk, Hkv, G), each may be 1 (repeated), or as k where that is packed or paged; G divides D;
  FA_F32 (default), FA_F16, FA_BF16; of quantised k alone
- `v_scale`: absent; as k_scale, for v and Dv
- `k_zero`: absent; as k_scale; its G may differ
- `v_zero`: absent; as k_zero, for v and Dv
- `tree_mask`: absent; (B or 1, Hq or 1, Sq, W), packed: (1, Hq or 1, total_q, W): W words of 32 bits, ceil(Sq / 32)
  of the longest sequence; FA_I32
- `tree_depth`: absent; (B or 1, Sq, 1, 1), packed: (1, total_q, 1, 1); FA_I32
- `k_rope`: absent; required with head_dim_rope: as k, with head_dim_rope for D; dtype_k_rope
"""
struct fa_forward_args
    struct_size::Csize_t
    q::fa_tensor
    k::fa_tensor
    v::fa_tensor
    out::fa_tensor
    lse::fa_tensor
    bias::fa_tensor
    mask::fa_tensor
    alibi_slopes::fa_tensor
    sinks::fa_tensor
    block_table::fa_tensor
    cu_seqlens_q::Ptr{Int32}
    cu_seqlens_k::Ptr{Int32}
    seqused_q::Ptr{Int32}
    seqused_k::Ptr{Int32}
    leftpad_k::Ptr{Int32}
    kv_batch_idx::Ptr{Int32}
    q_offset::Ptr{Int32}
    num_seqs::Int64
    max_seqlen_q::Int64
    max_seqlen_k::Int64
    num_splits::Int32
    reserved::Int32
    workspace::Ptr{Cvoid}
    workspace_size::Csize_t
    stream::Ptr{Cvoid}
    k_scale::fa_tensor
    v_scale::fa_tensor
    k_zero::fa_tensor
    v_zero::fa_tensor
    tree_mask::fa_tensor
    tree_depth::fa_tensor
    k_rope::fa_tensor
end

"""
One call of the backward pass. Initialise with fa_backward_args_init, then set q, k, v, out, lse, dout, and the
gradients that are wanted. Inputs of fa_forward are given as they were to fa_forward; letters as in fa_forward_args. A
gradient that is absent is not computed.

- `struct_size`: set by fa_backward_args_init
- `q`: as fa_forward_args.q
- `k`: as fa_forward_args.k
- `v`: as fa_forward_args.v
- `out`: as fa_forward_args.out, which fa_forward wrote; when delta is given, it is not read and may be absent
- `lse`: as fa_forward_args.lse, which fa_forward wrote; FA_F32
- `dout`: the gradient of out, shaped as out; dtype_out (default), FA_F32, FA_F16, FA_BF16
- `dq`: absent; written: shaped as q; dtype_q (default), FA_F32, FA_F16, FA_BF16
- `dk`: absent; written: shaped as k; dtype_kv (default), FA_F32, FA_F16, FA_BF16
- `dv`: absent; written: shaped as v; dtype_v (default), FA_F32, FA_F16, FA_BF16
- `dlse`: absent; the gradient of lse, shaped as lse; FA_F32
- `delta`: absent; the dot product of dout and out of each row, shaped as lse; FA_F32
- `bias`: absent; as fa_forward_args.bias
- `mask`: absent; as fa_forward_args.mask
- `alibi_slopes`: absent; as fa_forward_args.alibi_slopes: constants, without a gradient
- `sinks`: absent; as fa_forward_args.sinks; read for dsinks alone
- `block_table`: must be absent
- `dbias`: absent; written; (B, Hq, Sq, Sk), each may be 1 (summed); bias' type (default), FA_F32
- `dsinks`: absent; written; (B or 1, Hq, 1, 1), 1: summed; FA_F32
- `cu_seqlens_q`: NULL; this and the fields after it as in fa_forward_args
- `cu_seqlens_k`: NULL
- `seqused_q`: NULL
- `seqused_k`: NULL
- `leftpad_k`: NULL
- `kv_batch_idx`: NULL
- `q_offset`: NULL
- `num_seqs`: 0; this and the next two as in fa_forward_args
- `max_seqlen_q`: 0
- `max_seqlen_k`: 0
- `accumulate`: 0; FA_ACCUMULATE_*, for gradients of FA_F32 alone; nothing for one that is absent
- `reserved`: 0
- `workspace`: NULL: allocated by the call; else fa_backward_workspace_size bytes, 256-byte aligned
- `workspace_size`: 0; bytes behind workspace
- `stream`: NULL; as in fa_forward_args
"""
struct fa_backward_args
    struct_size::Csize_t
    q::fa_tensor
    k::fa_tensor
    v::fa_tensor
    out::fa_tensor
    lse::fa_tensor
    dout::fa_tensor
    dq::fa_tensor
    dk::fa_tensor
    dv::fa_tensor
    dlse::fa_tensor
    delta::fa_tensor
    bias::fa_tensor
    mask::fa_tensor
    alibi_slopes::fa_tensor
    sinks::fa_tensor
    block_table::fa_tensor
    dbias::fa_tensor
    dsinks::fa_tensor
    cu_seqlens_q::Ptr{Int32}
    cu_seqlens_k::Ptr{Int32}
    seqused_q::Ptr{Int32}
    seqused_k::Ptr{Int32}
    leftpad_k::Ptr{Int32}
    kv_batch_idx::Ptr{Int32}
    q_offset::Ptr{Int32}
    num_seqs::Int64
    max_seqlen_q::Int64
    max_seqlen_k::Int64
    accumulate::UInt32
    reserved::Int32
    workspace::Ptr{Cvoid}
    workspace_size::Csize_t
    stream::Ptr{Cvoid}
end

"""
One merge. Initialise with fa_merge_args_init, then set outs, lses, num_parts and out. The op gives device, threads,
dtype_out and head_dim_v. Letters as in fa_forward_args; packed results are one sequence of total_q rows.

- `struct_size`: set by fa_merge_args_init
- `outs`: num_parts of them, in host memory, as fa_forward wrote them: shaped as out; dtype_out (default), FA_F32,
  FA_F16, FA_BF16. Both arrays are read during the call alone
- `lses`: num_parts of them, in host memory: (B, Hq, Sq, 1); FA_F32
- `num_parts`: 1 .. FA_MAX_PARTS
- `flags`: 0; FA_MERGE_BASE_2
- `out`: written; (B, Sq, Hq, Dv), dtype_out; packed: (1, total_q, Hq, Dv)
- `lse`: absent; written: (B, Hq, Sq, 1); FA_F32
- `mask`: absent; (B or 1, Hq or 1, Sq, 1); FA_BOOL: true = merge, false = the row of part 0
- `workspace`: NULL; this version needs none
- `workspace_size`: 0; bytes behind workspace
- `stream`: NULL; as in fa_forward_args
"""
struct fa_merge_args
    struct_size::Csize_t
    outs::Ptr{fa_tensor}
    lses::Ptr{fa_tensor}
    num_parts::Int32
    flags::UInt32
    out::fa_tensor
    lse::fa_tensor
    mask::fa_tensor
    workspace::Ptr{Cvoid}
    workspace_size::Csize_t
    stream::Ptr{Cvoid}
end

"""
One call that appends to a cache. Initialise with fa_append_args_init, then set k, v, k_cache and v_cache at least.

B: sequences. Sn: new tokens of each, packed total_n of all. The op is that of fa_forward on this cache; letters and
arrays as there.

- `struct_size`: set by fa_append_args_init
- `k`: (B, Sn, Hkv, D), packed: (1, total_n, Hkv, D); dtype_q (default), FA_F32, FA_F16, FA_BF16; D less head_dim_rope
- `v`: absent with v_cache, where keys hold the values; (B, Sn, Hkv, Dv), packed as k; the same types
- `k_cache`: written; (B, Sk, Hkv, D), dtype_kv; paged: (pages, page_size, Hkv, D)
- `v_cache`: absent with v; written; (B, Sk, Hkv, Dv), dtype_v; paged as k_cache
- `k_scale`: absent; as fa_forward_args.k_scale for this cache: (B, Sk, Hkv, G), each may be 1, paged as k_cache;
  under FA_APPEND_COMPUTE_SCALES written, and none but G may differ from k_cache
- `v_scale`: absent; as k_scale, for v_cache and Dv
- `k_zero`: absent; as k_scale; its G may differ; written: as k_scale
- `v_zero`: absent; as k_zero, for v_cache and Dv
- `q`: absent; (B, Sq, Hq, D), packed: (1, total_n, Hq, D); dtype_q (default), FA_F32, FA_F16, FA_BF16
- `q_out`: absent; written; as q; dtype_q; may be exactly q: the same data, strides and type
- `rotary_cos`: absent; (1, positions, 1, rotary_dim / 2); FA_F32 (default), FA_F16, FA_BF16
- `rotary_sin`: absent; as rotary_cos; its type may differ
- `positions`: absent; (B, Sn, 1, 1), packed: (1, total_n, 1, 1); FA_I32 (default), FA_I64; a row of the tables
- `q_positions`: absent; (B, Sq, 1, 1), packed: (1, total_n, 1, 1); FA_I32 (default), FA_I64
- `slot_mapping`: absent; (B, Sn, 1, 1), packed: (1, total_n, 1, 1); FA_I32 (default), FA_I64; no slot twice
- `block_table`: absent; (B, pages per sequence, 1, 1); FA_I32; entries of pages without new tokens are not read
- `cu_seqlens_new`: NULL; num_seqs + 1 entries, as cu_seqlens_q: sequences of k, v, q, positions and slots
- `seqused_new`: NULL; 0 .. rows of the sequence; with it Sq is Sn, and q has as many rows
- `cache_seqlens`: NULL: 0; rows that the cache holds of each sequence before the call
- `leftpad_k`: NULL; 0 .. cache_seqlens: rows that positions leave out
- `kv_batch_idx`: NULL; 0 .. shape[0] of k_cache - 1
- `num_seqs`: 0; required with cu_seqlens_new: the number of sequences B (0 only where k has no rows)
- `max_seqlen_new`: 0: unknown (all rows of k); else no sequence has more new tokens
- `flags`: 0; FA_APPEND_*
- `reserved`: 0
- `workspace`: NULL; nothing is needed in this version
- `workspace_size`: 0
- `stream`: NULL; as in fa_forward_args
- `k_rope`: absent; required with head_dim_rope: as k, with head_dim_rope for D; the same types
- `k_rope_cache`: absent with k_rope; written; as k_cache, with head_dim_rope for D; dtype_k_rope
"""
struct fa_append_args
    struct_size::Csize_t
    k::fa_tensor
    v::fa_tensor
    k_cache::fa_tensor
    v_cache::fa_tensor
    k_scale::fa_tensor
    v_scale::fa_tensor
    k_zero::fa_tensor
    v_zero::fa_tensor
    q::fa_tensor
    q_out::fa_tensor
    rotary_cos::fa_tensor
    rotary_sin::fa_tensor
    positions::fa_tensor
    q_positions::fa_tensor
    slot_mapping::fa_tensor
    block_table::fa_tensor
    cu_seqlens_new::Ptr{Int32}
    seqused_new::Ptr{Int32}
    cache_seqlens::Ptr{Int32}
    leftpad_k::Ptr{Int32}
    kv_batch_idx::Ptr{Int32}
    num_seqs::Int64
    max_seqlen_new::Int64
    flags::UInt32
    reserved::Int32
    workspace::Ptr{Cvoid}
    workspace_size::Csize_t
    stream::Ptr{Cvoid}
    k_rope::fa_tensor
    k_rope_cache::fa_tensor
end

"""
What fa_kernel_info reports of one kernel. Strings live as long as the library is loaded. In a library that loads GPU
kernels which another build compiled (FA_KERNELS=load) a kernel without files is not available, and unavailable_reason
names the first file that is missing.

- `struct_size`: set by the caller to sizeof(fa_kernel)
- `name`: \"cpu.avx2\", as for FA_FORCE_KERNEL
- `device`: \"cpu\" or \"cuda\"
- `arch`: the ISA or SM that it is compiled for: \"avx2\", \"sm_80\"
- `compute_dtypes`: the types that it computes in at full speed, with spaces between: \"f32\", \"f16 bf16\"
- `available`: 1 when this machine can run it
- `num_backward`: the number of names that fa_kernel_backward_name has for it
- `unavailable_reason`: when not available, the reason; else \"\"
"""
struct fa_kernel
    struct_size::Csize_t
    name::Cstring
    device::Cstring
    arch::Cstring
    compute_dtypes::Cstring
    available::Int32
    num_backward::Int32
    unavailable_reason::Cstring
end

const _fa_desc_init = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_desc_init(desc, struct_size)

Fills *desc with the defaults given at each field. struct_size is the caller's sizeof(fa_desc); no byte beyond it is
written. Does nothing when desc is NULL. Thread-safe. Since 0.1.
"""
fa_desc_init(desc, struct_size) =
    @ccall $(address(_fa_desc_init, :fa_desc_init))(desc::Ptr{fa_desc}, struct_size::Csize_t)::Cvoid

const _fa_forward_args_init = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_forward_args_init(args, struct_size)

Fills *args with its defaults: everything absent, zero or NULL. struct_size and NULL as in fa_desc_init. Thread-safe.
Since 0.1.
"""
fa_forward_args_init(args, struct_size) =
    @ccall $(address(_fa_forward_args_init, :fa_forward_args_init))(
        args::Ptr{fa_forward_args}, struct_size::Csize_t)::Cvoid

const _fa_backward_args_init = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_backward_args_init(args, struct_size)

Fills *args with its defaults: everything absent, zero or NULL. struct_size and NULL as in fa_desc_init. Thread-safe.
Since 0.1.
"""
fa_backward_args_init(args, struct_size) =
    @ccall $(address(_fa_backward_args_init, :fa_backward_args_init))(
        args::Ptr{fa_backward_args}, struct_size::Csize_t)::Cvoid

const _fa_merge_args_init = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_merge_args_init(args, struct_size)

Fills *args with its defaults: everything absent, zero or NULL. struct_size and NULL as in fa_desc_init. Thread-safe.
Since 0.1.
"""
fa_merge_args_init(args, struct_size) =
    @ccall $(address(_fa_merge_args_init, :fa_merge_args_init))(args::Ptr{fa_merge_args}, struct_size::Csize_t)::Cvoid

const _fa_append_args_init = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_append_args_init(args, struct_size)

Fills *args with its defaults: everything absent, zero or NULL. struct_size and NULL as in fa_desc_init. Thread-safe.
Since 0.1.
"""
fa_append_args_init(args, struct_size) =
    @ccall $(address(_fa_append_args_init, :fa_append_args_init))(
        args::Ptr{fa_append_args}, struct_size::Csize_t)::Cvoid

const _fa_tensor_init = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_tensor_init(tensor, data, dtype, d0, d1, d2, d3)

Describes a contiguous tensor of shape (d0, d1, d2, d3), last dimension fastest. Inputs are only read, wherever they
are: cast a pointer to const, (void *)q. Does nothing when tensor is NULL. Thread-safe. Since 0.1.
"""
fa_tensor_init(tensor, data, dtype, d0, d1, d2, d3) =
    @ccall $(address(_fa_tensor_init, :fa_tensor_init))(
        tensor::Ptr{fa_tensor}, data::Ptr{Cvoid}, dtype::fa_dtype, d0::Int64, d1::Int64, d2::Int64, d3::Int64)::Cvoid

const _fa_create = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_create(desc, op)

Creates an op for *desc and stores it in *op (NULL on error). Checks every field, then takes the first kernel of the
library's table, best first, that supports it here. *desc may be dropped afterwards. Threads are started by the first
call that needs them, not here.

An op of FA_DEVICE_AUTO is created even when its GPU cannot be made ready (its memory is full, another process has
it). It then accepts host memory only. Each call with the GPU's memory tries again to make it ready, and while that
fails, the call fails with the reason.

Errors: FA_ERROR_INVALID_ARGUMENT; FA_ERROR_UNSUPPORTED when no kernel supports the attention (the text gives each
reason); FA_ERROR_NO_DEVICE; FA_ERROR_OUT_OF_MEMORY; FA_ERROR_DRIVER. Thread-safe. Since 0.1.
"""
fa_create(desc, op) =
    @ccall $(address(_fa_create, :fa_create))(desc::Ptr{fa_desc}, op::Ptr{Ptr{fa_op}})::fa_status

const _fa_forward_workspace_size = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_forward_workspace_size(op, args, bytes)

Stores in *bytes the workspace that fa_forward needs for *args.

The size follows from shapes, max_seqlen_*, num_splits and which arrays are given, and from nothing else: strides,
data pointers of q, k, v and out, and the contents of arrays do not matter. It never falls when a bound rises:
lengths, the batch, either number of heads. So the size for the largest call is enough for every smaller one.
(num_splits = 0 is no bound: the number chosen may need more or less than a number that is given.)

Errors: as fa_forward's checks; FA_ERROR_OUT_OF_MEMORY when the bytes do not fit size_t. Thread-safe. Since 0.1.
"""
fa_forward_workspace_size(op, args, bytes) =
    @ccall $(address(_fa_forward_workspace_size, :fa_forward_workspace_size))(
        op::Ptr{fa_op}, args::Ptr{fa_forward_args}, bytes::Ptr{Csize_t})::fa_status

const _fa_forward = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_forward(op, args)

Computes out (and lse) from q, k and v.

On the CPU, the result is there when the call returns. On CUDA, the work is enqueued on args->stream, and faults of
the device surface there. One case on CUDA is synchronous too: when all memory of the call is plain memory of the
host, which the GPU reaches, and stream is NULL, the result is there when the call returns.

With a workspace, the call otherwise neither allocates nor synchronises, and may be captured into a CUDA graph. The
workspace may hold anything, and nothing in it survives the call. Calls that may overlap in time need one each.

Errors: FA_ERROR_INVALID_ARGUMENT; FA_ERROR_UNSUPPORTED, for example on a GPU without memory pools when a workspace is
needed and none is given; FA_ERROR_OUT_OF_MEMORY; FA_ERROR_DRIVER; FA_ERROR_NO_DEVICE when the call has to load
kernels and they are not there. Thread-safe. Since 0.1.
"""
fa_forward(op, args) =
    @ccall $(address(_fa_forward, :fa_forward))(op::Ptr{fa_op}, args::Ptr{fa_forward_args})::fa_status

const _fa_backward_workspace_size = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_backward_workspace_size(op, args, bytes)

Stores in *bytes the workspace that fa_backward needs for *args.

The size follows from shapes, max_seqlen_*, and which tensors and arrays are given, and from nothing else: data
pointers of q, k, v, lse and dout, strides and the contents of arrays do not matter. It never falls when lengths, the
batch or numbers of heads rise, and grows no faster than the numbers of queries and keys do.

Errors: as fa_backward's checks; FA_ERROR_OUT_OF_MEMORY when the bytes do not fit size_t. Thread-safe. Since 0.1.
"""
fa_backward_workspace_size(op, args, bytes) =
    @ccall $(address(_fa_backward_workspace_size, :fa_backward_workspace_size))(
        op::Ptr{fa_op}, args::Ptr{fa_backward_args}, bytes::Ptr{Csize_t})::fa_status

const _fa_backward = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_backward(op, args)

Computes the gradients that *args has tensors for; \"THE BACKWARD PASS\" above defines them. The result is there when
fa_forward's would be. With a workspace, which may hold anything, the call does not allocate. On CUDA the first call
in a context loads kernels, which no capture allows; later ones may be captured into a CUDA graph.

Errors: as fa_forward. Thread-safe. Since 0.1.
"""
fa_backward(op, args) =
    @ccall $(address(_fa_backward, :fa_backward))(op::Ptr{fa_op}, args::Ptr{fa_backward_args})::fa_status

const _fa_merge_workspace_size = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_merge_workspace_size(op, args, bytes)

Stores in *bytes the workspace that fa_merge needs for *args: 0 in this version. Errors: as fa_merge's checks.
Thread-safe. Since 0.1.
"""
fa_merge_workspace_size(op, args, bytes) =
    @ccall $(address(_fa_merge_workspace_size, :fa_merge_workspace_size))(
        op::Ptr{fa_op}, args::Ptr{fa_merge_args}, bytes::Ptr{Csize_t})::fa_status

const _fa_merge = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_merge(op, args)

Merges the parts of *args; \"MERGING PARTIAL RESULTS\" above defines the result. The result is there when fa_forward's
would be. The call does not allocate. On CUDA it is one launch, which can be captured as fa_backward's.

Errors: as fa_forward. Thread-safe. Since 0.1.
"""
fa_merge(op, args) =
    @ccall $(address(_fa_merge, :fa_merge))(op::Ptr{fa_op}, args::Ptr{fa_merge_args})::fa_status

const _fa_append_workspace_size = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_append_workspace_size(op, args, bytes)

Stores in *bytes the workspace that fa_append needs for *args, which is 0 in this version.

Errors: as fa_append's checks. Thread-safe. Since 0.1.
"""
fa_append_workspace_size(op, args, bytes) =
    @ccall $(address(_fa_append_workspace_size, :fa_append_workspace_size))(
        op::Ptr{fa_op}, args::Ptr{fa_append_args}, bytes::Ptr{Csize_t})::fa_status

const _fa_append = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_append(op, args)

Writes new keys and values into a cache; \"APPENDING TO A CACHE\" above says where and how. The result is there when
fa_forward's would be. On CUDA the first call in a context loads a kernel, which no capture allows; later ones may be
captured into a CUDA graph.

Errors: as fa_forward. Thread-safe. Since 0.1.
"""
fa_append(op, args) =
    @ccall $(address(_fa_append, :fa_append))(op::Ptr{fa_op}, args::Ptr{fa_append_args})::fa_status

const _fa_destroy = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_destroy(op)

Ends an op. NULL is a no-op. No call on the op may be under way. Since 0.1.
"""
fa_destroy(op) =
    @ccall $(address(_fa_destroy, :fa_destroy))(op::Ptr{fa_op})::Cvoid

const _fa_last_error = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_last_error()

The text of the calling thread's last error: which argument, its value, the expected values, a remedy. \"\" when there
was none. Valid until the thread's next failing call. Never NULL; works out of memory. Thread-safe. Since 0.1.
"""
fa_last_error() =
    @ccall $(address(_fa_last_error, :fa_last_error))()::Cstring

const _fa_status_string = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_status_string(status)

A status's name, \"FA_OK\" for 0; \"unknown fa_status\" for any other value. Never NULL. Thread-safe. Since 0.1.
"""
fa_status_string(status) =
    @ccall $(address(_fa_status_string, :fa_status_string))(status::fa_status)::Cstring

const _fa_op_kernel_name = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_op_kernel_name(op)

The name of the kernel that an op runs (\"cpu.avx2\"); \"\" for NULL. Lives as long as the library.

On a GPU an op may hold several kernels. The name is that of the best; calls that it does not support run on the next
one (FA_VERBOSE=dispatch says which, and why). Under FA_FLAG_BATCH_INVARIANT one kernel runs all calls. Thread-safe.
Since 0.1.
"""
fa_op_kernel_name(op) =
    @ccall $(address(_fa_op_kernel_name, :fa_op_kernel_name))(op::Ptr{fa_op})::Cstring

const _fa_version = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_version()

The version of the library as loaded: major * 10000 + minor * 100 + patch. Thread-safe. Since 0.1.
"""
fa_version() =
    @ccall $(address(_fa_version, :fa_version))()::Int32

const _fa_build_info = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_build_info()

One line on how the library was built: version, compiler, architecture, kernels. Thread-safe. Since 0.1.
"""
fa_build_info() =
    @ccall $(address(_fa_build_info, :fa_build_info))()::Cstring

const _fa_kernel_count = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_kernel_count()

The number of kernels in the library. Thread-safe. Since 0.1.
"""
fa_kernel_count() =
    @ccall $(address(_fa_kernel_count, :fa_kernel_count))()::Int32

const _fa_kernel_info = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_kernel_info(index, info)

Fills *info (whose struct_size the caller has set; no byte beyond it is written) with kernel index, 0 ..
fa_kernel_count() - 1, best first. Errors: FA_ERROR_INVALID_ARGUMENT. Thread-safe. Since 0.1.
"""
fa_kernel_info(index, info) =
    @ccall $(address(_fa_kernel_info, :fa_kernel_info))(index::Int32, info::Ptr{fa_kernel})::fa_status

const _fa_kernel_backward_name = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_kernel_backward_name(index, i)

The name of the i-th best of the num_backward kernels that compute fa_backward of kernel index's ops: \"cpu.avx2\", or
\"cuda.sm_80.backward_mma\" and \"cuda.sm_80.backward_simt\". A build without a backward pass has none. FA_FORCE_KERNEL
takes the name of a CPU's kernel, but not of a GPU's. Where index or i is out of range, the result is \"\" and
fa_last_error() says so. Never NULL; lives as long as the library. Thread-safe. Since 0.1.
"""
fa_kernel_backward_name(index, i) =
    @ccall $(address(_fa_kernel_backward_name, :fa_kernel_backward_name))(index::Int32, i::Int32)::Cstring

"""
`void (*)(void *user, const char *text)`. Sends the library's messages (FA_VERBOSE) to log(user, text), one line
without its newline a call, instead of the standard error; NULL restores that. Call it before other threads use the
library. Since 0.1.
"""
const fa_log = Ptr{Cvoid}

const _fa_set_log = Ref{Ptr{Cvoid}}(C_NULL)
"    fa_set_log(log, user)"
fa_set_log(log, user) =
    @ccall $(address(_fa_set_log, :fa_set_log))(log::fa_log, user::Ptr{Cvoid})::Cvoid

const _fa_shutdown = Ref{Ptr{Cvoid}}(C_NULL)
"""
    fa_shutdown()

Ends the library's own threads and waits for them; a later call starts new ones. No call on an op may be under way.
Never needed, but lets a program be unloaded or measured cleanly. Since 0.1.
"""
fa_shutdown() =
    @ccall $(address(_fa_shutdown, :fa_shutdown))()::Cvoid

const functions = (
    (:fa_desc_init, _fa_desc_init),
    (:fa_forward_args_init, _fa_forward_args_init),
    (:fa_backward_args_init, _fa_backward_args_init),
    (:fa_merge_args_init, _fa_merge_args_init),
    (:fa_append_args_init, _fa_append_args_init),
    (:fa_tensor_init, _fa_tensor_init),
    (:fa_create, _fa_create),
    (:fa_forward_workspace_size, _fa_forward_workspace_size),
    (:fa_forward, _fa_forward),
    (:fa_backward_workspace_size, _fa_backward_workspace_size),
    (:fa_backward, _fa_backward),
    (:fa_merge_workspace_size, _fa_merge_workspace_size),
    (:fa_merge, _fa_merge),
    (:fa_append_workspace_size, _fa_append_workspace_size),
    (:fa_append, _fa_append),
    (:fa_destroy, _fa_destroy),
    (:fa_last_error, _fa_last_error),
    (:fa_status_string, _fa_status_string),
    (:fa_op_kernel_name, _fa_op_kernel_name),
    (:fa_version, _fa_version),
    (:fa_build_info, _fa_build_info),
    (:fa_kernel_count, _fa_kernel_count),
    (:fa_kernel_info, _fa_kernel_info),
    (:fa_kernel_backward_name, _fa_kernel_backward_name),
    (:fa_set_log, _fa_set_log),
    (:fa_shutdown, _fa_shutdown),
)

end
