// Generated from include/fa.h by scripts/generate-bindings.sh: change that instead.

pub const FA_VERSION_MAJOR: u32 = 0;
pub const FA_VERSION_MINOR: u32 = 1;
pub const FA_VERSION_PATCH: u32 = 0;
pub const FA_VERSION_STRING: &[u8; 6] = b"0.1.0\0";
pub const FA_ABI_VERSION: u32 = 0;
/// The result of a function. Values are fixed forever; treat one that you do not know as an error.
pub type fa_status = i32;
pub const FA_OK: fa_status = 0;
/// the call can never work: fa_last_error() names the argument
pub const FA_ERROR_INVALID_ARGUMENT: fa_status = 1;
/// legal, but nothing in this build or on this machine supports it
pub const FA_ERROR_UNSUPPORTED: fa_status = 2;
/// the device asked for is not there: no driver, no such index, no kernel image
pub const FA_ERROR_NO_DEVICE: fa_status = 3;
/// host or device memory is short; nothing was computed
pub const FA_ERROR_OUT_OF_MEMORY: fa_status = 4;
/// the device's driver failed: its own name and text are in fa_last_error()
pub const FA_ERROR_DRIVER: fa_status = 5;
/// Element types. FA_DTYPE_DEFAULT means the type that the field's comment names.
pub type fa_dtype = i32;
pub const FA_DTYPE_DEFAULT: fa_dtype = 0;
/// IEEE 754 binary32
pub const FA_F32: fa_dtype = 1;
/// IEEE 754 binary16
pub const FA_F16: fa_dtype = 2;
/// bfloat16: the upper half of a binary32
pub const FA_BF16: fa_dtype = 3;
/// one byte, true when not zero
pub const FA_BOOL: fa_dtype = 4;
/// 32-bit signed integer
pub const FA_I32: fa_dtype = 5;
/// 64-bit signed integer: positions and slots alone
pub const FA_I64: fa_dtype = 6;
/// from here on, codes of quantised k and v: an 8-bit signed integer
pub const FA_I8: fa_dtype = 7;
/// float8_e4m3fn: 4 bits of exponent, 3 of fraction; no infinity; NaN is 0x7f and 0xff
pub const FA_E4M3: fa_dtype = 8;
/// float8_e5m2: the upper half of a binary16
pub const FA_E5M2: fa_dtype = 9;
/// two 4-bit signed integers a byte, the first one in its low half
pub const FA_I4: fa_dtype = 10;
/// the same, unsigned
pub const FA_U4: fa_dtype = 11;
/// ggml's block_q8_0, 34 bytes: a binary16 scale, then 32 8-bit signed integers
pub const FA_Q8_0: fa_dtype = 12;
/** ggml's block_q4_0, 18 bytes: a binary16 scale, then 16 bytes; byte i has element i in its low half and
element 16 + i in its high half*/
pub const FA_Q4_0: fa_dtype = 13;
pub type fa_device = i32;
/// the GPU where the tensors live on one, else the CPU
pub const FA_DEVICE_AUTO: fa_device = 0;
pub const FA_DEVICE_CPU: fa_device = 1;
pub const FA_DEVICE_CUDA: fa_device = 2;
pub type fa_mask = i32;
pub const FA_MASK_NONE: fa_mask = 0;
/// aligned bottom-right: the last query attends every key
pub const FA_MASK_CAUSAL: fa_mask = 1;
/// aligned top-left: query 0 attends key 0 only
pub const FA_MASK_CAUSAL_TOP_LEFT: fa_mask = 2;
/// an engine may trade bitwise reproducibility from run to run for speed
pub const FA_FLAG_NONDETERMINISTIC: u32 = 1;
/** a query's bits depend on its own row, keys and mask alone: not on batch, padding or
neighbours, nor on how many queries the call holds (prefill and decode
agree). dq, dk and dv of a sequence do not depend on other sequences*/
pub const FA_FLAG_BATCH_INVARIANT: u32 = 2;
/// x = scale * q.k + bias; x = softcap * tanh(x / softcap)
pub const FA_FLAG_BIAS_BEFORE_SOFTCAP: u32 = 4;
/// fa_append rotates k by a Hadamard matrix, fa_forward q
pub const FA_FLAG_HADAMARD_K: u32 = 8;
/// fa_append rotates v by a Hadamard matrix, fa_forward out back
pub const FA_FLAG_HADAMARD_V: u32 = 16;
/// every pointer of a call is one that the device may use; with FA_DEVICE_CUDA alone
pub const FA_FLAG_DEVICE_POINTERS: u32 = 32;
pub const FA_ACCUMULATE_DQ: u32 = 1;
pub const FA_ACCUMULATE_DK: u32 = 2;
pub const FA_ACCUMULATE_DV: u32 = 4;
pub const FA_ACCUMULATE_DBIAS: u32 = 8;
pub const FA_ACCUMULATE_DSINKS: u32 = 16;
/// every lse, read or written, is a logarithm to base 2
pub const FA_MERGE_BASE_2: u32 = 1;
/// scales and zeros of new tokens are computed and written; else they are read
pub const FA_APPEND_COMPUTE_SCALES: u32 = 1;
/// pairs are neighbours (GPT-J's rotary embedding); else halves apart (GPT-NeoX's)
pub const FA_APPEND_ROTARY_INTERLEAVED: u32 = 2;
/// the last rotary_dim elements of a row are rotated, not the first
pub const FA_APPEND_ROTARY_TAIL: u32 = 4;
/// of q, k and of v
pub const FA_MAX_HEAD_DIM: u32 = 576;
pub const FA_MAX_THREADS: u32 = 1024;
pub const FA_MAX_SPLITS: u32 = 1024;
/// of fa_merge
pub const FA_MAX_PARTS: u32 = 32;
/// An attention, ready to run. Immutable; shared freely between threads.
#[repr(C)]
#[derive(Debug)]
pub struct fa_op {
    _unused: [u8; 0],
}
/** A view of memory that the caller owns. Frozen: it never grows. data may be NULL where the tensor has no
 elements. Where the field that holds it is optional, NULL means absent.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fa_tensor {
    /// the element at index (0, 0, 0, 0)
    pub data: *mut ::core::ffi::c_void,
    /// (batch, sequence, heads, dim), or as the field says
    pub shape: [i64; 4usize],
    /// in elements; any sign; 0 repeats (inputs only)
    pub stride: [i64; 4usize],
    /// FA_DTYPE_DEFAULT: the type that the field names
    pub dtype: fa_dtype,
    /// 0
    pub reserved: i32,
}
#[cfg(target_pointer_width = "64")]
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fa_tensor"][::core::mem::size_of::<fa_tensor>() - 80usize];
    ["Alignment of fa_tensor"][::core::mem::align_of::<fa_tensor>() - 8usize];
    [
        "Offset of field: fa_tensor::data",
    ][::core::mem::offset_of!(fa_tensor, data) - 0usize];
    [
        "Offset of field: fa_tensor::shape",
    ][::core::mem::offset_of!(fa_tensor, shape) - 8usize];
    [
        "Offset of field: fa_tensor::stride",
    ][::core::mem::offset_of!(fa_tensor, stride) - 40usize];
    [
        "Offset of field: fa_tensor::dtype",
    ][::core::mem::offset_of!(fa_tensor, dtype) - 72usize];
    [
        "Offset of field: fa_tensor::reserved",
    ][::core::mem::offset_of!(fa_tensor, reserved) - 76usize];
};
/** The host's own thread pool. It must call task(ctx, i) exactly once for every i in [0, n), on any thread, in any order,
 possibly one after another, and return when all calls have returned. Tasks never wait for one another.
 n <= fa_desc.num_threads. user is fa_desc.parallel_for_user.*/
pub type fa_task = ::core::option::Option<
    unsafe extern "C" fn(ctx: *mut ::core::ffi::c_void, i: i64),
>;
pub type fa_parallel_for = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut ::core::ffi::c_void,
        task: fa_task,
        ctx: *mut ::core::ffi::c_void,
        n: i64,
    ),
>;
/// An attention, for the life of the op. Initialise with fa_desc_init, then set dtype_q and head_dim at least.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fa_desc {
    /// set by fa_desc_init
    pub struct_size: usize,
    /// FA_DEVICE_AUTO
    pub device: fa_device,
    /// 0; which GPU
    pub device_index: i32,
    /// required: FA_F32, FA_F16 or FA_BF16
    pub dtype_q: fa_dtype,
    /// FA_DTYPE_DEFAULT: as dtype_q. May differ from it: an f16 or bf16 cache under f32 queries
    pub dtype_kv: fa_dtype,
    /// FA_DTYPE_DEFAULT: as dtype_q
    pub dtype_out: fa_dtype,
    /// FA_MASK_NONE
    pub mask: fa_mask,
    /// required: of q and k, 1 .. FA_MAX_HEAD_DIM
    pub head_dim: i64,
    /// 0: as head_dim; of v and out, 1 .. FA_MAX_HEAD_DIM
    pub head_dim_v: i64,
    /// -1: open; keys before the query's position that it attends
    pub window_left: i64,
    /// -1: open; keys after it (a causal mask allows none whatever this says)
    pub window_right: i64,
    /// 0: none; queries attend keys of their own chunk of this many positions
    pub attention_chunk: i64,
    /// 0: 1 / sqrt(head_dim); finite
    pub softmax_scale: f32,
    /// 0: none; positive, finite
    pub softcap: f32,
    /// 0; FA_FLAG_*
    pub flags: u32,
    /// 0: FA_NUM_THREADS, else the CPUs that the process may use; at most FA_MAX_THREADS
    pub num_threads: i32,
    /// NULL: the library's own threads
    pub parallel_for: fa_parallel_for,
    /// NULL; passed to parallel_for
    pub parallel_for_user: *mut ::core::ffi::c_void,
    /// FA_DTYPE_DEFAULT: as dtype_kv, which is k's alone where this is given
    pub dtype_v: fa_dtype,
    /// FA_DTYPE_DEFAULT: as dtype_q; FA_F32, FA_F16 or FA_BF16
    pub dtype_k_rope: fa_dtype,
    /// 0; 0 .. head_dim - 1: the last elements of keys, which k_rope has
    pub head_dim_rope: i64,
}
#[cfg(target_pointer_width = "64")]
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fa_desc"][::core::mem::size_of::<fa_desc>() - 120usize];
    ["Alignment of fa_desc"][::core::mem::align_of::<fa_desc>() - 8usize];
    [
        "Offset of field: fa_desc::struct_size",
    ][::core::mem::offset_of!(fa_desc, struct_size) - 0usize];
    [
        "Offset of field: fa_desc::device",
    ][::core::mem::offset_of!(fa_desc, device) - 8usize];
    [
        "Offset of field: fa_desc::device_index",
    ][::core::mem::offset_of!(fa_desc, device_index) - 12usize];
    [
        "Offset of field: fa_desc::dtype_q",
    ][::core::mem::offset_of!(fa_desc, dtype_q) - 16usize];
    [
        "Offset of field: fa_desc::dtype_kv",
    ][::core::mem::offset_of!(fa_desc, dtype_kv) - 20usize];
    [
        "Offset of field: fa_desc::dtype_out",
    ][::core::mem::offset_of!(fa_desc, dtype_out) - 24usize];
    ["Offset of field: fa_desc::mask"][::core::mem::offset_of!(fa_desc, mask) - 28usize];
    [
        "Offset of field: fa_desc::head_dim",
    ][::core::mem::offset_of!(fa_desc, head_dim) - 32usize];
    [
        "Offset of field: fa_desc::head_dim_v",
    ][::core::mem::offset_of!(fa_desc, head_dim_v) - 40usize];
    [
        "Offset of field: fa_desc::window_left",
    ][::core::mem::offset_of!(fa_desc, window_left) - 48usize];
    [
        "Offset of field: fa_desc::window_right",
    ][::core::mem::offset_of!(fa_desc, window_right) - 56usize];
    [
        "Offset of field: fa_desc::attention_chunk",
    ][::core::mem::offset_of!(fa_desc, attention_chunk) - 64usize];
    [
        "Offset of field: fa_desc::softmax_scale",
    ][::core::mem::offset_of!(fa_desc, softmax_scale) - 72usize];
    [
        "Offset of field: fa_desc::softcap",
    ][::core::mem::offset_of!(fa_desc, softcap) - 76usize];
    [
        "Offset of field: fa_desc::flags",
    ][::core::mem::offset_of!(fa_desc, flags) - 80usize];
    [
        "Offset of field: fa_desc::num_threads",
    ][::core::mem::offset_of!(fa_desc, num_threads) - 84usize];
    [
        "Offset of field: fa_desc::parallel_for",
    ][::core::mem::offset_of!(fa_desc, parallel_for) - 88usize];
    [
        "Offset of field: fa_desc::parallel_for_user",
    ][::core::mem::offset_of!(fa_desc, parallel_for_user) - 96usize];
    [
        "Offset of field: fa_desc::dtype_v",
    ][::core::mem::offset_of!(fa_desc, dtype_v) - 104usize];
    [
        "Offset of field: fa_desc::dtype_k_rope",
    ][::core::mem::offset_of!(fa_desc, dtype_k_rope) - 108usize];
    [
        "Offset of field: fa_desc::head_dim_rope",
    ][::core::mem::offset_of!(fa_desc, head_dim_rope) - 112usize];
};
/** One call. Initialise with fa_forward_args_init, then set q, k, v and out at least.

 B: sequences. Sq, Sk: rows of q and of k (bias and mask: of the longest sequence, max_seqlen_* where that is given).
 Hq, Hkv: heads. D, Dv: head_dim, head_dim_v.

 Pointers to int32_t are arrays in memory that the op's device can reach, of B entries unless said otherwise. On the CPU
 their contents are checked. On CUDA the host never reads them, so contents out of range cannot be reported.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fa_forward_args {
    /// set by fa_forward_args_init
    pub struct_size: usize,
    /// (B, Sq, Hq, D), dtype_q; packed: (1, total_q, Hq, D)
    pub q: fa_tensor,
    /** (B, Sk, Hkv, D), dtype_kv; packed: (1, total_k, Hkv, D); paged: (pages, page_size, Hkv, D); D less
head_dim_rope*/
    pub k: fa_tensor,
    /// as k, with Dv for D; dtype_v
    pub v: fa_tensor,
    /// (B, Sq, Hq, Dv), dtype_out; packed: (1, total_q, Hq, Dv); no stride 0, no overlap with any input
    pub out: fa_tensor,
    /// absent; written: (B, Hq, Sq, 1), packed (1, Hq, total_q, 1); FA_F32; natural logarithm, sink included
    pub lse: fa_tensor,
    /// absent; (B, Hq, Sq, Sk), each may be 1 (repeated); FA_F32 (default), FA_F16, FA_BF16
    pub bias: fa_tensor,
    /// absent; shape as bias; FA_BOOL: true = attend
    pub mask: fa_tensor,
    /// absent; (B or 1, Hq, 1, 1); FA_F32
    pub alibi_slopes: fa_tensor,
    /// absent; (B or 1, Hq, 1, 1); FA_F32: a logit per head in the softmax's denominator
    pub sinks: fa_tensor,
    /// absent; (B, pages per sequence, 1, 1); FA_I32; entries past the used pages are never read
    pub block_table: fa_tensor,
    /// NULL; num_seqs + 1 entries: the first 0 or more, never falling, the last at most total_q
    pub cu_seqlens_q: *const i32,
    /// NULL; the same for k and v
    pub cu_seqlens_k: *const i32,
    /// NULL; 0 .. rows of the sequence
    pub seqused_q: *const i32,
    /// NULL; 0 .. keys of the sequence, leftpad_k included
    pub seqused_k: *const i32,
    /// NULL; 0 .. used keys of the sequence
    pub leftpad_k: *const i32,
    /// NULL; 0 .. shape[0] of k - 1
    pub kv_batch_idx: *const i32,
    /// NULL; position of query 0 relative to key 0, of any sign
    pub q_offset: *const i32,
    /// 0; required with cu_seqlens_*: the number of sequences B (0 only where q has no rows)
    pub num_seqs: i64,
    /// 0: unknown (all rows of q); else no sequence has more queries
    pub max_seqlen_q: i64,
    /// 0: unknown (all rows of k, or table width x page size); else no sequence has more keys
    pub max_seqlen_k: i64,
    /// 0: chosen; else the keys of each sequence are worked on in this many parts, at most FA_MAX_SPLITS
    pub num_splits: i32,
    /// 0
    pub reserved: i32,
    /// NULL: allocated by the call; else fa_forward_workspace_size bytes, 256-byte aligned
    pub workspace: *mut ::core::ffi::c_void,
    /// 0; bytes behind workspace
    pub workspace_size: usize,
    /// NULL; the CUDA stream (CUstream, cudaStream_t); ignored on the CPU
    pub stream: *mut ::core::ffi::c_void,
    /** absent; (B, Sk, Hkv, G), each may be 1 (repeated), or as k where that is packed or paged; G divides D;
FA_F32 (default), FA_F16, FA_BF16; of quantised k alone*/
    pub k_scale: fa_tensor,
    /// absent; as k_scale, for v and Dv
    pub v_scale: fa_tensor,
    /// absent; as k_scale; its G may differ
    pub k_zero: fa_tensor,
    /// absent; as k_zero, for v and Dv
    pub v_zero: fa_tensor,
    /** absent; (B or 1, Hq or 1, Sq, W), packed: (1, Hq or 1, total_q, W): W words of 32 bits, ceil(Sq / 32) of the
longest sequence; FA_I32*/
    pub tree_mask: fa_tensor,
    /// absent; (B or 1, Sq, 1, 1), packed: (1, total_q, 1, 1); FA_I32
    pub tree_depth: fa_tensor,
    /// absent; required with head_dim_rope: as k, with head_dim_rope for D; dtype_k_rope
    pub k_rope: fa_tensor,
}
#[cfg(target_pointer_width = "64")]
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fa_forward_args"][::core::mem::size_of::<fa_forward_args>() - 1480usize];
    [
        "Alignment of fa_forward_args",
    ][::core::mem::align_of::<fa_forward_args>() - 8usize];
    [
        "Offset of field: fa_forward_args::struct_size",
    ][::core::mem::offset_of!(fa_forward_args, struct_size) - 0usize];
    [
        "Offset of field: fa_forward_args::q",
    ][::core::mem::offset_of!(fa_forward_args, q) - 8usize];
    [
        "Offset of field: fa_forward_args::k",
    ][::core::mem::offset_of!(fa_forward_args, k) - 88usize];
    [
        "Offset of field: fa_forward_args::v",
    ][::core::mem::offset_of!(fa_forward_args, v) - 168usize];
    [
        "Offset of field: fa_forward_args::out",
    ][::core::mem::offset_of!(fa_forward_args, out) - 248usize];
    [
        "Offset of field: fa_forward_args::lse",
    ][::core::mem::offset_of!(fa_forward_args, lse) - 328usize];
    [
        "Offset of field: fa_forward_args::bias",
    ][::core::mem::offset_of!(fa_forward_args, bias) - 408usize];
    [
        "Offset of field: fa_forward_args::mask",
    ][::core::mem::offset_of!(fa_forward_args, mask) - 488usize];
    [
        "Offset of field: fa_forward_args::alibi_slopes",
    ][::core::mem::offset_of!(fa_forward_args, alibi_slopes) - 568usize];
    [
        "Offset of field: fa_forward_args::sinks",
    ][::core::mem::offset_of!(fa_forward_args, sinks) - 648usize];
    [
        "Offset of field: fa_forward_args::block_table",
    ][::core::mem::offset_of!(fa_forward_args, block_table) - 728usize];
    [
        "Offset of field: fa_forward_args::cu_seqlens_q",
    ][::core::mem::offset_of!(fa_forward_args, cu_seqlens_q) - 808usize];
    [
        "Offset of field: fa_forward_args::cu_seqlens_k",
    ][::core::mem::offset_of!(fa_forward_args, cu_seqlens_k) - 816usize];
    [
        "Offset of field: fa_forward_args::seqused_q",
    ][::core::mem::offset_of!(fa_forward_args, seqused_q) - 824usize];
    [
        "Offset of field: fa_forward_args::seqused_k",
    ][::core::mem::offset_of!(fa_forward_args, seqused_k) - 832usize];
    [
        "Offset of field: fa_forward_args::leftpad_k",
    ][::core::mem::offset_of!(fa_forward_args, leftpad_k) - 840usize];
    [
        "Offset of field: fa_forward_args::kv_batch_idx",
    ][::core::mem::offset_of!(fa_forward_args, kv_batch_idx) - 848usize];
    [
        "Offset of field: fa_forward_args::q_offset",
    ][::core::mem::offset_of!(fa_forward_args, q_offset) - 856usize];
    [
        "Offset of field: fa_forward_args::num_seqs",
    ][::core::mem::offset_of!(fa_forward_args, num_seqs) - 864usize];
    [
        "Offset of field: fa_forward_args::max_seqlen_q",
    ][::core::mem::offset_of!(fa_forward_args, max_seqlen_q) - 872usize];
    [
        "Offset of field: fa_forward_args::max_seqlen_k",
    ][::core::mem::offset_of!(fa_forward_args, max_seqlen_k) - 880usize];
    [
        "Offset of field: fa_forward_args::num_splits",
    ][::core::mem::offset_of!(fa_forward_args, num_splits) - 888usize];
    [
        "Offset of field: fa_forward_args::reserved",
    ][::core::mem::offset_of!(fa_forward_args, reserved) - 892usize];
    [
        "Offset of field: fa_forward_args::workspace",
    ][::core::mem::offset_of!(fa_forward_args, workspace) - 896usize];
    [
        "Offset of field: fa_forward_args::workspace_size",
    ][::core::mem::offset_of!(fa_forward_args, workspace_size) - 904usize];
    [
        "Offset of field: fa_forward_args::stream",
    ][::core::mem::offset_of!(fa_forward_args, stream) - 912usize];
    [
        "Offset of field: fa_forward_args::k_scale",
    ][::core::mem::offset_of!(fa_forward_args, k_scale) - 920usize];
    [
        "Offset of field: fa_forward_args::v_scale",
    ][::core::mem::offset_of!(fa_forward_args, v_scale) - 1000usize];
    [
        "Offset of field: fa_forward_args::k_zero",
    ][::core::mem::offset_of!(fa_forward_args, k_zero) - 1080usize];
    [
        "Offset of field: fa_forward_args::v_zero",
    ][::core::mem::offset_of!(fa_forward_args, v_zero) - 1160usize];
    [
        "Offset of field: fa_forward_args::tree_mask",
    ][::core::mem::offset_of!(fa_forward_args, tree_mask) - 1240usize];
    [
        "Offset of field: fa_forward_args::tree_depth",
    ][::core::mem::offset_of!(fa_forward_args, tree_depth) - 1320usize];
    [
        "Offset of field: fa_forward_args::k_rope",
    ][::core::mem::offset_of!(fa_forward_args, k_rope) - 1400usize];
};
/** One call of the backward pass. Initialise with fa_backward_args_init, then set q, k, v, out, lse, dout, and the gradients that
 are wanted. Inputs of fa_forward are given as they were to fa_forward; letters as in fa_forward_args. A gradient that is
 absent is not computed.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fa_backward_args {
    /// set by fa_backward_args_init
    pub struct_size: usize,
    /// as fa_forward_args.q
    pub q: fa_tensor,
    /// as fa_forward_args.k
    pub k: fa_tensor,
    /// as fa_forward_args.v
    pub v: fa_tensor,
    /// as fa_forward_args.out, which fa_forward wrote; when delta is given, it is not read and may be absent
    pub out: fa_tensor,
    /// as fa_forward_args.lse, which fa_forward wrote; FA_F32
    pub lse: fa_tensor,
    /// the gradient of out, shaped as out; dtype_out (default), FA_F32, FA_F16, FA_BF16
    pub dout: fa_tensor,
    /// absent; written: shaped as q; dtype_q (default), FA_F32, FA_F16, FA_BF16
    pub dq: fa_tensor,
    /// absent; written: shaped as k; dtype_kv (default), FA_F32, FA_F16, FA_BF16
    pub dk: fa_tensor,
    /// absent; written: shaped as v; dtype_v (default), FA_F32, FA_F16, FA_BF16
    pub dv: fa_tensor,
    /// absent; the gradient of lse, shaped as lse; FA_F32
    pub dlse: fa_tensor,
    /// absent; the dot product of dout and out of each row, shaped as lse; FA_F32
    pub delta: fa_tensor,
    /// absent; as fa_forward_args.bias
    pub bias: fa_tensor,
    /// absent; as fa_forward_args.mask
    pub mask: fa_tensor,
    /// absent; as fa_forward_args.alibi_slopes: constants, without a gradient
    pub alibi_slopes: fa_tensor,
    /// absent; as fa_forward_args.sinks; read for dsinks alone
    pub sinks: fa_tensor,
    /// must be absent
    pub block_table: fa_tensor,
    /// absent; written; (B, Hq, Sq, Sk), each may be 1 (summed); bias' type (default), FA_F32
    pub dbias: fa_tensor,
    /// absent; written; (B or 1, Hq, 1, 1), 1: summed; FA_F32
    pub dsinks: fa_tensor,
    /// NULL; this and the fields after it as in fa_forward_args
    pub cu_seqlens_q: *const i32,
    /// NULL
    pub cu_seqlens_k: *const i32,
    /// NULL
    pub seqused_q: *const i32,
    /// NULL
    pub seqused_k: *const i32,
    /// NULL
    pub leftpad_k: *const i32,
    /// NULL
    pub kv_batch_idx: *const i32,
    /// NULL
    pub q_offset: *const i32,
    /// 0; this and the next two as in fa_forward_args
    pub num_seqs: i64,
    /// 0
    pub max_seqlen_q: i64,
    /// 0
    pub max_seqlen_k: i64,
    /// 0; FA_ACCUMULATE_*, for gradients of FA_F32 alone; nothing for one that is absent
    pub accumulate: u32,
    /// 0
    pub reserved: i32,
    /// NULL: allocated by the call; else fa_backward_workspace_size bytes, 256-byte aligned
    pub workspace: *mut ::core::ffi::c_void,
    /// 0; bytes behind workspace
    pub workspace_size: usize,
    /// NULL; as in fa_forward_args
    pub stream: *mut ::core::ffi::c_void,
}
#[cfg(target_pointer_width = "64")]
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fa_backward_args"][::core::mem::size_of::<fa_backward_args>() - 1560usize];
    [
        "Alignment of fa_backward_args",
    ][::core::mem::align_of::<fa_backward_args>() - 8usize];
    [
        "Offset of field: fa_backward_args::struct_size",
    ][::core::mem::offset_of!(fa_backward_args, struct_size) - 0usize];
    [
        "Offset of field: fa_backward_args::q",
    ][::core::mem::offset_of!(fa_backward_args, q) - 8usize];
    [
        "Offset of field: fa_backward_args::k",
    ][::core::mem::offset_of!(fa_backward_args, k) - 88usize];
    [
        "Offset of field: fa_backward_args::v",
    ][::core::mem::offset_of!(fa_backward_args, v) - 168usize];
    [
        "Offset of field: fa_backward_args::out",
    ][::core::mem::offset_of!(fa_backward_args, out) - 248usize];
    [
        "Offset of field: fa_backward_args::lse",
    ][::core::mem::offset_of!(fa_backward_args, lse) - 328usize];
    [
        "Offset of field: fa_backward_args::dout",
    ][::core::mem::offset_of!(fa_backward_args, dout) - 408usize];
    [
        "Offset of field: fa_backward_args::dq",
    ][::core::mem::offset_of!(fa_backward_args, dq) - 488usize];
    [
        "Offset of field: fa_backward_args::dk",
    ][::core::mem::offset_of!(fa_backward_args, dk) - 568usize];
    [
        "Offset of field: fa_backward_args::dv",
    ][::core::mem::offset_of!(fa_backward_args, dv) - 648usize];
    [
        "Offset of field: fa_backward_args::dlse",
    ][::core::mem::offset_of!(fa_backward_args, dlse) - 728usize];
    [
        "Offset of field: fa_backward_args::delta",
    ][::core::mem::offset_of!(fa_backward_args, delta) - 808usize];
    [
        "Offset of field: fa_backward_args::bias",
    ][::core::mem::offset_of!(fa_backward_args, bias) - 888usize];
    [
        "Offset of field: fa_backward_args::mask",
    ][::core::mem::offset_of!(fa_backward_args, mask) - 968usize];
    [
        "Offset of field: fa_backward_args::alibi_slopes",
    ][::core::mem::offset_of!(fa_backward_args, alibi_slopes) - 1048usize];
    [
        "Offset of field: fa_backward_args::sinks",
    ][::core::mem::offset_of!(fa_backward_args, sinks) - 1128usize];
    [
        "Offset of field: fa_backward_args::block_table",
    ][::core::mem::offset_of!(fa_backward_args, block_table) - 1208usize];
    [
        "Offset of field: fa_backward_args::dbias",
    ][::core::mem::offset_of!(fa_backward_args, dbias) - 1288usize];
    [
        "Offset of field: fa_backward_args::dsinks",
    ][::core::mem::offset_of!(fa_backward_args, dsinks) - 1368usize];
    [
        "Offset of field: fa_backward_args::cu_seqlens_q",
    ][::core::mem::offset_of!(fa_backward_args, cu_seqlens_q) - 1448usize];
    [
        "Offset of field: fa_backward_args::cu_seqlens_k",
    ][::core::mem::offset_of!(fa_backward_args, cu_seqlens_k) - 1456usize];
    [
        "Offset of field: fa_backward_args::seqused_q",
    ][::core::mem::offset_of!(fa_backward_args, seqused_q) - 1464usize];
    [
        "Offset of field: fa_backward_args::seqused_k",
    ][::core::mem::offset_of!(fa_backward_args, seqused_k) - 1472usize];
    [
        "Offset of field: fa_backward_args::leftpad_k",
    ][::core::mem::offset_of!(fa_backward_args, leftpad_k) - 1480usize];
    [
        "Offset of field: fa_backward_args::kv_batch_idx",
    ][::core::mem::offset_of!(fa_backward_args, kv_batch_idx) - 1488usize];
    [
        "Offset of field: fa_backward_args::q_offset",
    ][::core::mem::offset_of!(fa_backward_args, q_offset) - 1496usize];
    [
        "Offset of field: fa_backward_args::num_seqs",
    ][::core::mem::offset_of!(fa_backward_args, num_seqs) - 1504usize];
    [
        "Offset of field: fa_backward_args::max_seqlen_q",
    ][::core::mem::offset_of!(fa_backward_args, max_seqlen_q) - 1512usize];
    [
        "Offset of field: fa_backward_args::max_seqlen_k",
    ][::core::mem::offset_of!(fa_backward_args, max_seqlen_k) - 1520usize];
    [
        "Offset of field: fa_backward_args::accumulate",
    ][::core::mem::offset_of!(fa_backward_args, accumulate) - 1528usize];
    [
        "Offset of field: fa_backward_args::reserved",
    ][::core::mem::offset_of!(fa_backward_args, reserved) - 1532usize];
    [
        "Offset of field: fa_backward_args::workspace",
    ][::core::mem::offset_of!(fa_backward_args, workspace) - 1536usize];
    [
        "Offset of field: fa_backward_args::workspace_size",
    ][::core::mem::offset_of!(fa_backward_args, workspace_size) - 1544usize];
    [
        "Offset of field: fa_backward_args::stream",
    ][::core::mem::offset_of!(fa_backward_args, stream) - 1552usize];
};
/** One merge. Initialise with fa_merge_args_init, then set outs, lses, num_parts and out. The op gives device, threads, dtype_out and
 head_dim_v. Letters as in fa_forward_args; packed results are one sequence of total_q rows.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fa_merge_args {
    /// set by fa_merge_args_init
    pub struct_size: usize,
    /** num_parts of them, in host memory, as fa_forward wrote them: shaped as out; dtype_out (default), FA_F32,
FA_F16, FA_BF16. Both arrays are read during the call alone*/
    pub outs: *const fa_tensor,
    /// num_parts of them, in host memory: (B, Hq, Sq, 1); FA_F32
    pub lses: *const fa_tensor,
    /// 1 .. FA_MAX_PARTS
    pub num_parts: i32,
    /// 0; FA_MERGE_BASE_2
    pub flags: u32,
    /// written; (B, Sq, Hq, Dv), dtype_out; packed: (1, total_q, Hq, Dv)
    pub out: fa_tensor,
    /// absent; written: (B, Hq, Sq, 1); FA_F32
    pub lse: fa_tensor,
    /// absent; (B or 1, Hq or 1, Sq, 1); FA_BOOL: true = merge, false = the row of part 0
    pub mask: fa_tensor,
    /// NULL; this version needs none
    pub workspace: *mut ::core::ffi::c_void,
    /// 0; bytes behind workspace
    pub workspace_size: usize,
    /// NULL; as in fa_forward_args
    pub stream: *mut ::core::ffi::c_void,
}
#[cfg(target_pointer_width = "64")]
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fa_merge_args"][::core::mem::size_of::<fa_merge_args>() - 296usize];
    ["Alignment of fa_merge_args"][::core::mem::align_of::<fa_merge_args>() - 8usize];
    [
        "Offset of field: fa_merge_args::struct_size",
    ][::core::mem::offset_of!(fa_merge_args, struct_size) - 0usize];
    [
        "Offset of field: fa_merge_args::outs",
    ][::core::mem::offset_of!(fa_merge_args, outs) - 8usize];
    [
        "Offset of field: fa_merge_args::lses",
    ][::core::mem::offset_of!(fa_merge_args, lses) - 16usize];
    [
        "Offset of field: fa_merge_args::num_parts",
    ][::core::mem::offset_of!(fa_merge_args, num_parts) - 24usize];
    [
        "Offset of field: fa_merge_args::flags",
    ][::core::mem::offset_of!(fa_merge_args, flags) - 28usize];
    [
        "Offset of field: fa_merge_args::out",
    ][::core::mem::offset_of!(fa_merge_args, out) - 32usize];
    [
        "Offset of field: fa_merge_args::lse",
    ][::core::mem::offset_of!(fa_merge_args, lse) - 112usize];
    [
        "Offset of field: fa_merge_args::mask",
    ][::core::mem::offset_of!(fa_merge_args, mask) - 192usize];
    [
        "Offset of field: fa_merge_args::workspace",
    ][::core::mem::offset_of!(fa_merge_args, workspace) - 272usize];
    [
        "Offset of field: fa_merge_args::workspace_size",
    ][::core::mem::offset_of!(fa_merge_args, workspace_size) - 280usize];
    [
        "Offset of field: fa_merge_args::stream",
    ][::core::mem::offset_of!(fa_merge_args, stream) - 288usize];
};
/** One call that appends to a cache. Initialise with fa_append_args_init, then set k, v, k_cache and v_cache at least.

 B: sequences. Sn: new tokens of each, packed total_n of all. The op is that of fa_forward on this cache; letters and arrays
 as there.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fa_append_args {
    /// set by fa_append_args_init
    pub struct_size: usize,
    /** (B, Sn, Hkv, D), packed: (1, total_n, Hkv, D); dtype_q (default), FA_F32, FA_F16, FA_BF16; D less
head_dim_rope*/
    pub k: fa_tensor,
    /// absent with v_cache, where keys hold the values; (B, Sn, Hkv, Dv), packed as k; the same types
    pub v: fa_tensor,
    /// written; (B, Sk, Hkv, D), dtype_kv; paged: (pages, page_size, Hkv, D)
    pub k_cache: fa_tensor,
    /// absent with v; written; (B, Sk, Hkv, Dv), dtype_v; paged as k_cache
    pub v_cache: fa_tensor,
    /** absent; as fa_forward_args.k_scale for this cache: (B, Sk, Hkv, G), each may be 1, paged as k_cache; under
FA_APPEND_COMPUTE_SCALES written, and none but G may differ from k_cache*/
    pub k_scale: fa_tensor,
    /// absent; as k_scale, for v_cache and Dv
    pub v_scale: fa_tensor,
    /// absent; as k_scale; its G may differ; written: as k_scale
    pub k_zero: fa_tensor,
    /// absent; as k_zero, for v_cache and Dv
    pub v_zero: fa_tensor,
    /// absent; (B, Sq, Hq, D), packed: (1, total_n, Hq, D); dtype_q (default), FA_F32, FA_F16, FA_BF16
    pub q: fa_tensor,
    /// absent; written; as q; dtype_q; may be exactly q: the same data, strides and type
    pub q_out: fa_tensor,
    /// absent; (1, positions, 1, rotary_dim / 2); FA_F32 (default), FA_F16, FA_BF16
    pub rotary_cos: fa_tensor,
    /// absent; as rotary_cos; its type may differ
    pub rotary_sin: fa_tensor,
    /// absent; (B, Sn, 1, 1), packed: (1, total_n, 1, 1); FA_I32 (default), FA_I64; a row of the tables
    pub positions: fa_tensor,
    /// absent; (B, Sq, 1, 1), packed: (1, total_n, 1, 1); FA_I32 (default), FA_I64
    pub q_positions: fa_tensor,
    /// absent; (B, Sn, 1, 1), packed: (1, total_n, 1, 1); FA_I32 (default), FA_I64; no slot twice
    pub slot_mapping: fa_tensor,
    /// absent; (B, pages per sequence, 1, 1); FA_I32; entries of pages without new tokens are not read
    pub block_table: fa_tensor,
    /// NULL; num_seqs + 1 entries, as cu_seqlens_q: sequences of k, v, q, positions and slots
    pub cu_seqlens_new: *const i32,
    /// NULL; 0 .. rows of the sequence; with it Sq is Sn, and q has as many rows
    pub seqused_new: *const i32,
    /// NULL: 0; rows that the cache holds of each sequence before the call
    pub cache_seqlens: *const i32,
    /// NULL; 0 .. cache_seqlens: rows that positions leave out
    pub leftpad_k: *const i32,
    /// NULL; 0 .. shape[0] of k_cache - 1
    pub kv_batch_idx: *const i32,
    /// 0; required with cu_seqlens_new: the number of sequences B (0 only where k has no rows)
    pub num_seqs: i64,
    /// 0: unknown (all rows of k); else no sequence has more new tokens
    pub max_seqlen_new: i64,
    /// 0; FA_APPEND_*
    pub flags: u32,
    /// 0
    pub reserved: i32,
    /// NULL; nothing is needed in this version
    pub workspace: *mut ::core::ffi::c_void,
    /// 0
    pub workspace_size: usize,
    /// NULL; as in fa_forward_args
    pub stream: *mut ::core::ffi::c_void,
    /// absent; required with head_dim_rope: as k, with head_dim_rope for D; the same types
    pub k_rope: fa_tensor,
    /// absent with k_rope; written; as k_cache, with head_dim_rope for D; dtype_k_rope
    pub k_rope_cache: fa_tensor,
}
#[cfg(target_pointer_width = "64")]
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fa_append_args"][::core::mem::size_of::<fa_append_args>() - 1536usize];
    ["Alignment of fa_append_args"][::core::mem::align_of::<fa_append_args>() - 8usize];
    [
        "Offset of field: fa_append_args::struct_size",
    ][::core::mem::offset_of!(fa_append_args, struct_size) - 0usize];
    [
        "Offset of field: fa_append_args::k",
    ][::core::mem::offset_of!(fa_append_args, k) - 8usize];
    [
        "Offset of field: fa_append_args::v",
    ][::core::mem::offset_of!(fa_append_args, v) - 88usize];
    [
        "Offset of field: fa_append_args::k_cache",
    ][::core::mem::offset_of!(fa_append_args, k_cache) - 168usize];
    [
        "Offset of field: fa_append_args::v_cache",
    ][::core::mem::offset_of!(fa_append_args, v_cache) - 248usize];
    [
        "Offset of field: fa_append_args::k_scale",
    ][::core::mem::offset_of!(fa_append_args, k_scale) - 328usize];
    [
        "Offset of field: fa_append_args::v_scale",
    ][::core::mem::offset_of!(fa_append_args, v_scale) - 408usize];
    [
        "Offset of field: fa_append_args::k_zero",
    ][::core::mem::offset_of!(fa_append_args, k_zero) - 488usize];
    [
        "Offset of field: fa_append_args::v_zero",
    ][::core::mem::offset_of!(fa_append_args, v_zero) - 568usize];
    [
        "Offset of field: fa_append_args::q",
    ][::core::mem::offset_of!(fa_append_args, q) - 648usize];
    [
        "Offset of field: fa_append_args::q_out",
    ][::core::mem::offset_of!(fa_append_args, q_out) - 728usize];
    [
        "Offset of field: fa_append_args::rotary_cos",
    ][::core::mem::offset_of!(fa_append_args, rotary_cos) - 808usize];
    [
        "Offset of field: fa_append_args::rotary_sin",
    ][::core::mem::offset_of!(fa_append_args, rotary_sin) - 888usize];
    [
        "Offset of field: fa_append_args::positions",
    ][::core::mem::offset_of!(fa_append_args, positions) - 968usize];
    [
        "Offset of field: fa_append_args::q_positions",
    ][::core::mem::offset_of!(fa_append_args, q_positions) - 1048usize];
    [
        "Offset of field: fa_append_args::slot_mapping",
    ][::core::mem::offset_of!(fa_append_args, slot_mapping) - 1128usize];
    [
        "Offset of field: fa_append_args::block_table",
    ][::core::mem::offset_of!(fa_append_args, block_table) - 1208usize];
    [
        "Offset of field: fa_append_args::cu_seqlens_new",
    ][::core::mem::offset_of!(fa_append_args, cu_seqlens_new) - 1288usize];
    [
        "Offset of field: fa_append_args::seqused_new",
    ][::core::mem::offset_of!(fa_append_args, seqused_new) - 1296usize];
    [
        "Offset of field: fa_append_args::cache_seqlens",
    ][::core::mem::offset_of!(fa_append_args, cache_seqlens) - 1304usize];
    [
        "Offset of field: fa_append_args::leftpad_k",
    ][::core::mem::offset_of!(fa_append_args, leftpad_k) - 1312usize];
    [
        "Offset of field: fa_append_args::kv_batch_idx",
    ][::core::mem::offset_of!(fa_append_args, kv_batch_idx) - 1320usize];
    [
        "Offset of field: fa_append_args::num_seqs",
    ][::core::mem::offset_of!(fa_append_args, num_seqs) - 1328usize];
    [
        "Offset of field: fa_append_args::max_seqlen_new",
    ][::core::mem::offset_of!(fa_append_args, max_seqlen_new) - 1336usize];
    [
        "Offset of field: fa_append_args::flags",
    ][::core::mem::offset_of!(fa_append_args, flags) - 1344usize];
    [
        "Offset of field: fa_append_args::reserved",
    ][::core::mem::offset_of!(fa_append_args, reserved) - 1348usize];
    [
        "Offset of field: fa_append_args::workspace",
    ][::core::mem::offset_of!(fa_append_args, workspace) - 1352usize];
    [
        "Offset of field: fa_append_args::workspace_size",
    ][::core::mem::offset_of!(fa_append_args, workspace_size) - 1360usize];
    [
        "Offset of field: fa_append_args::stream",
    ][::core::mem::offset_of!(fa_append_args, stream) - 1368usize];
    [
        "Offset of field: fa_append_args::k_rope",
    ][::core::mem::offset_of!(fa_append_args, k_rope) - 1376usize];
    [
        "Offset of field: fa_append_args::k_rope_cache",
    ][::core::mem::offset_of!(fa_append_args, k_rope_cache) - 1456usize];
};
/** What fa_kernel_info reports of one kernel. Strings live as long as the library is loaded. In a library that loads GPU
 kernels which another build compiled (FA_KERNELS=load) a kernel without files is not available, and unavailable_reason
 names the first file that is missing.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fa_kernel {
    /// set by the caller to sizeof(fa_kernel)
    pub struct_size: usize,
    /// "cpu.avx2", as for FA_FORCE_KERNEL
    pub name: *const ::core::ffi::c_char,
    /// "cpu" or "cuda"
    pub device: *const ::core::ffi::c_char,
    /// the ISA or SM that it is compiled for: "avx2", "sm_80"
    pub arch: *const ::core::ffi::c_char,
    /// the types that it computes in at full speed, with spaces between: "f32", "f16 bf16"
    pub compute_dtypes: *const ::core::ffi::c_char,
    /// 1 when this machine can run it
    pub available: i32,
    /// the number of names that fa_kernel_backward_name has for it
    pub num_backward: i32,
    /// when not available, the reason; else ""
    pub unavailable_reason: *const ::core::ffi::c_char,
}
#[cfg(target_pointer_width = "64")]
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fa_kernel"][::core::mem::size_of::<fa_kernel>() - 56usize];
    ["Alignment of fa_kernel"][::core::mem::align_of::<fa_kernel>() - 8usize];
    [
        "Offset of field: fa_kernel::struct_size",
    ][::core::mem::offset_of!(fa_kernel, struct_size) - 0usize];
    [
        "Offset of field: fa_kernel::name",
    ][::core::mem::offset_of!(fa_kernel, name) - 8usize];
    [
        "Offset of field: fa_kernel::device",
    ][::core::mem::offset_of!(fa_kernel, device) - 16usize];
    [
        "Offset of field: fa_kernel::arch",
    ][::core::mem::offset_of!(fa_kernel, arch) - 24usize];
    [
        "Offset of field: fa_kernel::compute_dtypes",
    ][::core::mem::offset_of!(fa_kernel, compute_dtypes) - 32usize];
    [
        "Offset of field: fa_kernel::available",
    ][::core::mem::offset_of!(fa_kernel, available) - 40usize];
    [
        "Offset of field: fa_kernel::num_backward",
    ][::core::mem::offset_of!(fa_kernel, num_backward) - 44usize];
    [
        "Offset of field: fa_kernel::unavailable_reason",
    ][::core::mem::offset_of!(fa_kernel, unavailable_reason) - 48usize];
};
/** Sends the library's messages (FA_VERBOSE) to log(user, text), one line without its newline a call, instead of the
 standard error; NULL restores that. Call it before other threads use the library. Since 0.1.*/
pub type fa_log = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut ::core::ffi::c_void,
        text: *const ::core::ffi::c_char,
    ),
>;

functions! {
    /** Fills *desc with the defaults given at each field. struct_size is the caller's sizeof(fa_desc); no byte beyond it is
 written. Does nothing when desc is NULL. Thread-safe. Since 0.1.*/
    pub fn fa_desc_init(desc: *mut fa_desc, struct_size: usize);
    /** Fills *args with its defaults: everything absent, zero or NULL. struct_size and NULL as in fa_desc_init. Thread-safe.
 Since 0.1.*/
    pub fn fa_forward_args_init(args: *mut fa_forward_args, struct_size: usize);
    /** Fills *args with its defaults: everything absent, zero or NULL. struct_size and NULL as in fa_desc_init. Thread-safe.
 Since 0.1.*/
    pub fn fa_backward_args_init(args: *mut fa_backward_args, struct_size: usize);
    /** Fills *args with its defaults: everything absent, zero or NULL. struct_size and NULL as in fa_desc_init. Thread-safe.
 Since 0.1.*/
    pub fn fa_merge_args_init(args: *mut fa_merge_args, struct_size: usize);
    /** Fills *args with its defaults: everything absent, zero or NULL. struct_size and NULL as in fa_desc_init. Thread-safe.
 Since 0.1.*/
    pub fn fa_append_args_init(args: *mut fa_append_args, struct_size: usize);
    /** Describes a contiguous tensor of shape (d0, d1, d2, d3), last dimension fastest. Inputs are only read, wherever they
 are: cast a pointer to const, (void *)q. Does nothing when tensor is NULL. Thread-safe. Since 0.1.*/
    pub fn fa_tensor_init(
        tensor: *mut fa_tensor,
        data: *mut ::core::ffi::c_void,
        dtype: fa_dtype,
        d0: i64,
        d1: i64,
        d2: i64,
        d3: i64,
    );
    /** Creates an op for *desc and stores it in *op (NULL on error). Checks every field, then takes the first kernel
 of the library's table, best first, that supports it here. *desc may be dropped afterwards. Threads are
 started by the first call that needs them, not here.

 An op of FA_DEVICE_AUTO is created even when its GPU cannot be made ready (its memory is full, another process has it). It
 then accepts host memory only. Each call with the GPU's memory tries again to make it ready, and while that fails,
 the call fails with the reason.

 Errors: FA_ERROR_INVALID_ARGUMENT; FA_ERROR_UNSUPPORTED when no kernel supports the attention (the text gives each
 reason); FA_ERROR_NO_DEVICE; FA_ERROR_OUT_OF_MEMORY; FA_ERROR_DRIVER. Thread-safe. Since 0.1.*/
    pub fn fa_create(desc: *const fa_desc, op: *mut *mut fa_op) -> fa_status;
    /** Stores in *bytes the workspace that fa_forward needs for *args.

 The size follows from shapes, max_seqlen_*, num_splits and which arrays are given, and from nothing else: strides,
 data pointers of q, k, v and out, and the contents of arrays do not matter. It never falls when a bound rises:
 lengths, the batch, either number of heads. So the size for the largest call is enough for every smaller one.
 (num_splits = 0 is no bound: the number chosen may need more or less than a number that is given.)

 Errors: as fa_forward's checks; FA_ERROR_OUT_OF_MEMORY when the bytes do not fit size_t. Thread-safe. Since 0.1.*/
    pub fn fa_forward_workspace_size(
        op: *const fa_op,
        args: *const fa_forward_args,
        bytes: *mut usize,
    ) -> fa_status;
    /** Computes out (and lse) from q, k and v.

 On the CPU, the result is there when the call returns. On CUDA, the work is enqueued on args->stream, and faults of
 the device surface there. One case on CUDA is synchronous too: when all memory of the call is plain memory of the
 host, which the GPU reaches, and stream is NULL, the result is there when the call returns.

 With a workspace, the call otherwise neither allocates nor synchronises, and may be captured into a CUDA
 graph. The workspace may hold anything, and nothing in it survives the call. Calls that may overlap in time
 need one each.

 Errors: FA_ERROR_INVALID_ARGUMENT; FA_ERROR_UNSUPPORTED, for example on a GPU without memory pools when a workspace is
 needed and none is given; FA_ERROR_OUT_OF_MEMORY; FA_ERROR_DRIVER; FA_ERROR_NO_DEVICE when the call has to load
 kernels and they are not there. Thread-safe. Since 0.1.*/
    pub fn fa_forward(op: *const fa_op, args: *const fa_forward_args) -> fa_status;
    /** Stores in *bytes the workspace that fa_backward needs for *args.

 The size follows from shapes, max_seqlen_*, and which tensors and arrays are given, and from nothing else: data pointers of
 q, k, v, lse and dout, strides and the contents of arrays do not matter. It never falls when lengths, the batch or
 numbers of heads rise, and grows no faster than the numbers of queries and keys do.

 Errors: as fa_backward's checks; FA_ERROR_OUT_OF_MEMORY when the bytes do not fit size_t. Thread-safe. Since 0.1.*/
    pub fn fa_backward_workspace_size(
        op: *const fa_op,
        args: *const fa_backward_args,
        bytes: *mut usize,
    ) -> fa_status;
    /** Computes the gradients that *args has tensors for; "THE BACKWARD PASS" above defines them. The result is there when
 fa_forward's would be. With a workspace, which may hold anything, the call does not allocate. On CUDA the first call
 in a context loads kernels, which no capture allows; later ones may be captured into a CUDA graph.

 Errors: as fa_forward. Thread-safe. Since 0.1.*/
    pub fn fa_backward(op: *const fa_op, args: *const fa_backward_args) -> fa_status;
    /** Stores in *bytes the workspace that fa_merge needs for *args: 0 in this version. Errors: as fa_merge's checks. Thread-safe.
 Since 0.1.*/
    pub fn fa_merge_workspace_size(
        op: *const fa_op,
        args: *const fa_merge_args,
        bytes: *mut usize,
    ) -> fa_status;
    /** Merges the parts of *args; "MERGING PARTIAL RESULTS" above defines the result. The result is there when fa_forward's would be. The
 call does not allocate. On CUDA it is one launch, which can be captured as fa_backward's.

 Errors: as fa_forward. Thread-safe. Since 0.1.*/
    pub fn fa_merge(op: *const fa_op, args: *const fa_merge_args) -> fa_status;
    /** Stores in *bytes the workspace that fa_append needs for *args, which is 0 in this version.

 Errors: as fa_append's checks. Thread-safe. Since 0.1.*/
    pub fn fa_append_workspace_size(
        op: *const fa_op,
        args: *const fa_append_args,
        bytes: *mut usize,
    ) -> fa_status;
    /** Writes new keys and values into a cache; "APPENDING TO A CACHE" above says where and how. The result is there when
 fa_forward's would be. On CUDA the first call in a context loads a kernel, which no capture allows; later ones may be
 captured into a CUDA graph.

 Errors: as fa_forward. Thread-safe. Since 0.1.*/
    pub fn fa_append(op: *const fa_op, args: *const fa_append_args) -> fa_status;
    /// Ends an op. NULL is a no-op. No call on the op may be under way. Since 0.1.
    pub fn fa_destroy(op: *mut fa_op);
    /** The text of the calling thread's last error: which argument, its value, the expected values, a remedy. "" when
 there was none. Valid until the thread's next failing call. Never NULL; works out of memory.
 Thread-safe. Since 0.1.*/
    pub fn fa_last_error() -> *const ::core::ffi::c_char;
    /// A status's name, "FA_OK" for 0; "unknown fa_status" for any other value. Never NULL. Thread-safe. Since 0.1.
    pub fn fa_status_string(status: fa_status) -> *const ::core::ffi::c_char;
    /** The name of the kernel that an op runs ("cpu.avx2"); "" for NULL. Lives as long as the library.

 On a GPU an op may hold several kernels. The name is that of the best; calls that it does not support run on the next
 one (FA_VERBOSE=dispatch says which, and why). Under FA_FLAG_BATCH_INVARIANT one kernel runs all calls.
 Thread-safe. Since 0.1.*/
    pub fn fa_op_kernel_name(op: *const fa_op) -> *const ::core::ffi::c_char;
    /// The version of the library as loaded: major * 10000 + minor * 100 + patch. Thread-safe. Since 0.1.
    pub fn fa_version() -> i32;
    /// One line on how the library was built: version, compiler, architecture, kernels. Thread-safe. Since 0.1.
    pub fn fa_build_info() -> *const ::core::ffi::c_char;
    /// The number of kernels in the library. Thread-safe. Since 0.1.
    pub fn fa_kernel_count() -> i32;
    /** Fills *info (whose struct_size the caller has set; no byte beyond it is written) with kernel index,
 0 .. fa_kernel_count() - 1, best first. Errors: FA_ERROR_INVALID_ARGUMENT. Thread-safe. Since 0.1.*/
    pub fn fa_kernel_info(index: i32, info: *mut fa_kernel) -> fa_status;
    /** The name of the i-th best of the num_backward kernels that compute fa_backward of kernel index's ops: "cpu.avx2", or
 "cuda.sm_80.backward_mma" and "cuda.sm_80.backward_simt". A build without a backward pass has none. FA_FORCE_KERNEL takes the
 name of a CPU's kernel, but not of a GPU's. Where index or i is out of range, the result is "" and fa_last_error()
 says so. Never NULL; lives as long as the library. Thread-safe. Since 0.1.*/
    pub fn fa_kernel_backward_name(index: i32, i: i32) -> *const ::core::ffi::c_char;
    pub fn fa_set_log(log: fa_log, user: *mut ::core::ffi::c_void);
    /** Ends the library's own threads and waits for them; a later call starts new ones. No call on an op may be under
 way. Never needed, but lets a program be unloaded or measured cleanly. Since 0.1.*/
    pub fn fa_shutdown();
}
