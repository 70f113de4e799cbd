// One validated, normalised attention call, the input of every engine. Nothing here is checked again below the API.
#pragma once

#include <fa.h>

#include <cstddef>
#include <cstdint>

#include "schema/fields.def"

namespace fa {

/// A validated fa_desc with every default filled in: the attention, for the life of an op.
struct Attention {
  fa_device device = FA_DEVICE_AUTO;
  int32_t device_index = 0;
  fa_dtype q_dtype = FA_F32;
  fa_dtype kv_dtype = FA_F32;  // of k
  fa_dtype v_dtype = FA_F32;
  fa_dtype out_dtype = FA_F32;
  fa_mask mask = FA_MASK_NONE;
  int64_t head_dim = 0;
  int64_t head_dim_v = 0;
  int64_t head_dim_rope = 0;  // the last elements of keys, which k_rope has
  fa_dtype k_rope_dtype = FA_F32;
  int64_t window_left = -1;   // -1: open
  int64_t window_right = -1;  // -1: open
  int64_t chunk = 0;          // 0: none
  float scale = 0;
  float softcap = 0;  // 0: none
  bool nondeterministic = false;
  bool batch_invariant = false;
  bool bias_before_softcap = false;
  bool device_pointers = false;            // a promise of the caller: the device may use every pointer of a call
  int64_t hadamard_k = 1, hadamard_v = 1;  // elements of a block of k, of v, that is rotated; 1: none is
  int32_t num_threads = 0;                 // 0: the engine's default
  fa_parallel_for parallel_for = nullptr;
  void *parallel_for_user = nullptr;

  /// The elements of a key that k has.
  int64_t head_dim_k() const { return head_dim - head_dim_rope; }

  /// Whether keys or values are in the cache rotated by a Hadamard matrix.
  bool rotates_cache() const { return hadamard_k > 1 || hadamard_v > 1; }
};

/// A tensor of a call. Strides are in bytes; a broadcast dimension has stride 0, as has the last one of a packed type;
/// data is null when the tensor is absent.
struct View {
  char *data = nullptr;
  int64_t stride[4] = {0, 0, 0, 0};
  fa_dtype dtype = FA_DTYPE_DEFAULT;

  explicit operator bool() const { return data != nullptr; }

  template <class T = char>
  T *at(int64_t i, int64_t j, int64_t k, int64_t l = 0) const {
    return reinterpret_cast<T *>(data + i * stride[0] + j * stride[1] + k * stride[2] + l * stride[3]);
  }
};

// A call has members with the names of its structure's tensors and arrays.
#define FA_VIEW(name, ...) View name;
#define FA_INDICES(name, ...) const int32_t *name = nullptr;

/// The inputs of a call of any operation. Shapes agree with each other; the contents of arrays are not checked (the
/// engine does, where it can).
struct Inputs {
  const Attention *attention = nullptr;

  int64_t batch = 0;    // sequences
  int64_t heads_q = 0;  // a multiple of heads_kv, or both 0
  int64_t heads_kv = 0;
  int64_t rows_q = 0;   // rows of q: shape[1] (all sequences' together when cu_seqlens_q is given)
  int64_t rows_k = 0;   // rows of k: shape[1], or all sequences' together; paged: table width x page_size
  int64_t batch_k = 0;  // shape[0] of k: batch, cache rows under kv_batch_idx, pages under block_table, 1 when packed
  int64_t max_seqlen_q = 0;  // bound on a sequence's queries: max_seqlen_q, else rows_q
  int64_t max_seqlen_k = 0;  // bound on a sequence's keys: max_seqlen_k, else rows_k

  FA_INPUT_FIELDS(FA_VIEW, FA_INDICES, FA_NOTHING)

  int64_t page_size = 0;  // rows of a page; 0 when not paged
};

struct CallerState;

/// The resources of a call.
struct Execution {
  CallerState *caller = nullptr;  // the calling thread's state on entry
  int32_t num_splits = 0;         // 0: the engine chooses
  void *workspace = nullptr;
  size_t workspace_size = 0;
  void *stream = nullptr;
};

/// The numbers of consecutive elements of a row that share a scale or a zero; 0: absent.
struct FactorChannels {
  int64_t k_scale = 0, v_scale = 0, k_zero = 0, v_zero = 0;
};

/// A validated fa_forward_args.
struct ForwardCall : Inputs, Execution {
  FA_QUANTISED_FIELDS(FA_VIEW, FA_INDICES, FA_NOTHING)
  FactorChannels channels;

  FA_TREE_FIELDS(FA_VIEW, FA_INDICES, FA_NOTHING)

  FA_ROPE_FIELDS(FA_VIEW, FA_INDICES, FA_NOTHING)

  FA_FORWARD_OWN_FIELDS(FA_VIEW, FA_INDICES, FA_NOTHING)

  bool writes_nothing() const { return batch == 0 || heads_q == 0 || rows_q == 0; }
};

/// A validated fa_backward_args: gradients of a ForwardCall's results. Never paged. There may be nothing to write
/// (all gradients absent or without elements), or no queries and yet zeros to write.
struct BackwardCall : Inputs, Execution {
  FA_BACKWARD_OWN_FIELDS(FA_VIEW, FA_INDICES, FA_NOTHING)

  int64_t dbias_shape[4] = {0, 0, 0, 0};  // a dimension of 1 that has more scores is their sum
  int64_t dsinks_batch = 0;               // 1: summed over the batch
  uint32_t accumulate = 0;                // FA_ACCUMULATE_*: the f32 gradients that are added to their tensors

  /// Without queries there are still zeros to write.
  bool writes_nothing() const { return !dq && !dk && !dv && !dbias && !dsinks; }

  bool adds_to(uint32_t gradient) const { return (accumulate & gradient) != 0; }
};

/// A validated fa_merge_args. Packed sequences are the rows of one.
struct MergeCall : Execution {
  const Attention *attention = nullptr;

  int64_t batch = 0;    // of out: shape[0]
  int64_t rows_q = 0;   // shape[1]
  int64_t heads_q = 0;  // shape[2]

  FA_MERGE_FIELDS(FA_VIEW, FA_INDICES, FA_NOTHING)

  int32_t num_parts = 0;
  View outs[FA_MAX_PARTS], lses[FA_MAX_PARTS];  // num_parts of each
  bool base_2 = false;                          // every lse is a logarithm to base 2

  bool writes_nothing() const { return batch == 0 || heads_q == 0 || rows_q == 0; }
};

/// A validated fa_append_args: rows of new tokens that go into a cache, and queries that are rotated as their keys are.
struct AppendCall : Execution {
  const Attention *attention = nullptr;

  int64_t batch = 0;  // sequences
  int64_t heads_q = 0, heads_kv = 0;
  int64_t rows_new = 0;          // rows of k: shape[1] (all sequences' together when cu_seqlens_new is given)
  int64_t rows_q = 0;            // the same of q: rows_new under cu_seqlens_new or seqused_new
  int64_t rows_cache = 0;        // rows of a sequence: shape[1] of k_cache; paged: table width x page_size
  int64_t batch_cache = 0;       // shape[0] of k_cache: entries, or pages
  int64_t page_size = 0;         // rows of a page, under block_table and slot_mapping; 0: neither
  int64_t max_seqlen_new = 0;    // bound on a sequence's new tokens: max_seqlen_new, else rows_new
  int64_t rotary_pairs = 0;      // of a row; 0: nothing is rotated
  int64_t rotary_rows = 0;       // positions that the tables have
  bool interleaved = false;      // FA_APPEND_ROTARY_INTERLEAVED
  bool rotates_tail = false;     // FA_APPEND_ROTARY_TAIL
  bool computes_scales = false;  // FA_APPEND_COMPUTE_SCALES
  FactorChannels channels;

  FA_APPEND_FIELDS(FA_VIEW, FA_INDICES, FA_NOTHING)

  bool writes_nothing() const { return !k && !q_out; }

  /// Pairs of a row of k, and of k_rope.
  int64_t pairs_of_k() const { return attention->head_dim_rope != 0 && rotates_tail ? 0 : rotary_pairs; }
  int64_t pairs_of_k_rope() const { return rotates_tail ? rotary_pairs : 0; }
};

#undef FA_VIEW
#undef FA_INDICES

}  // namespace fa
