#include "cpu/plan.h"

#include <algorithm>
#include <limits>
#include <new>
#include <span>

#include "core/dtype.h"

namespace fa::cpu {

namespace {

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
constexpr Count aligned(Count bytes) {
  return rounded_up(bytes, 64);
}

int64_t group(const ForwardCall &call) {
  return call.heads_q / call.heads_kv;
}

/// Floats of one row's partial softmax.
int64_t partial_floats(const Attention &a) {
  return a.head_dim_v + 2;
}

std::span<const Microkernel> microkernels_of(const IsaKernels &kernels) {
  return {kernels.microkernels, static_cast<size_t>(kernels.microkernel_count)};
}

/// Whether the elements of a row are next to each other.
bool unit_stride(const View &view) {
  return is_packed(view.dtype) || view.stride[3] == dtype_bytes(view.dtype);
}

/// The first microkernel that supports a head of this many rows.
const Microkernel &choose_microkernel(const ForwardCall &call, const IsaKernels &kernels, int64_t rows) {
  const bool unit_strides = unit_stride(call.k) && unit_stride(call.v);
  for (const Microkernel &microkernel : microkernels_of(kernels))
    if (microkernel.supports(*call.attention) && (microkernel.many_tiles || rows <= microkernel.tile_rows) &&
        (microkernel.any_stride || unit_strides))
      return microkernel;
  return kernels.fallback();
}

/// True when the heads of a key are contiguous in memory (BSHD), and those of its values: it pays to read them
/// together, as rows of one head are far apart.
bool heads_interleaved(const ForwardCall &call) {
  const Attention &a = *call.attention;
  return call.heads_kv > 1 && unit_stride(call.k) && unit_stride(call.v) &&
         call.k.stride[2] == row_bytes(call.k.dtype, a.head_dim_k()) && call.k.stride[1] > call.k.stride[2] &&
         call.v.stride[2] == row_bytes(call.v.dtype, a.head_dim_v) && call.v.stride[1] > call.v.stride[2];
}

/// The number of heads whose items a worker may take at once.
int64_t max_heads(const ForwardCall &call, const SequencePlan &plan) {
  const Microkernel &kernel = *plan.microkernel;
  if (kernel.max_heads == 1 || !heads_interleaved(call) || plan.rows == 0) return 1;
  const int64_t heads = std::min<int64_t>(kernel.max_heads, kernel.max_rows_of_heads / plan.rows);
  return std::clamp<int64_t>(heads, 1, call.heads_kv);
}

/// The maximum number of keys that this many consecutive queries attend, as far as a window or a chunk bounds it.
Count keys_of(const Attention &a, int64_t queries) {
  const int64_t right = a.mask != FA_MASK_NONE ? 0 : a.window_right;
  Count keys = std::numeric_limits<int64_t>::max();
  if (a.window_left >= 0 && right >= 0) keys = Count(a.window_left) + right + queries;
  if (a.chunk > 0) keys = std::min(keys, rounded_up(Count(queries - 1), a.chunk) + a.chunk);
  return keys;
}

/// Rows of a head's tiles, of `all` rows: tiles grow where every thread has several.
int64_t rows_of_tiles(const Microkernel &microkernel, Count all, int64_t threads) {
  constexpr int64_t tiles_of_a_thread = 4;
  int64_t rows = microkernel.tile_rows;
  while (rows < microkernel.max_rows && all >= Count(2 * rows) * threads * tiles_of_a_thread) rows *= 2;
  return rows;
}

}  // namespace

int64_t rows_of_results(const IsaKernels &kernels, int64_t tile_rows) {
  const bool recomputes = std::ranges::any_of(microkernels_of(kernels), &Microkernel::finite_scores_only);
  return 3 * tile_rows + (recomputes ? kernels.fallback().max_rows : 0);
}

/// Rows are counted over all heads of q, however these are grouped: a tile of one key head has no more rows, and a tile
/// of several heads may have rows of all.
ForwardWorkspace ForwardPlan::workspace(const ForwardCall &call, const IsaKernels &kernels, int64_t threads) {
  const Attention &a = *call.attention;
  const Count batch = call.batch, heads_kv = call.heads_kv, rows = Count(call.max_seqlen_q) * call.heads_q;
  const auto at_most = [](Count count, int64_t limit) {
    return static_cast<int64_t>(std::min<Count>(count, limit).value());
  };
  const Count all_rows = call.cu_seqlens_q != nullptr ? Count(call.rows_q) * call.heads_q : batch * rows;
  ForwardWorkspace workspace = {all_rows, threads, 0, 0, 0, 0, 0, 0};
  Count kernel = 0;
  int min_rows = max_tile_rows, max_rows = 0;  // of tiles of a head with many, of the only tile of a head
  for (const Microkernel &microkernel : microkernels_of(kernels)) {
    if (!microkernel.supports(a)) continue;
    if (microkernel.many_tiles) min_rows = std::min(min_rows, microkernel.tile_rows);
    max_rows = std::max(max_rows, microkernel.tile_rows);
    const Count heads = std::min<Count>(heads_kv, microkernel.max_heads);
    const int64_t limit = microkernel.max_heads > 1 ? microkernel.max_rows_of_heads : max_tile_rows;
    const int64_t tile_rows = at_most(std::min(rows, rows_of_tiles(microkernel, all_rows, threads) * heads), limit);
    workspace.tile_rows = std::max(workspace.tile_rows, tile_rows);
    kernel = std::max<Count>(kernel, microkernel.scratch_bytes(a, static_cast<int>(tile_rows)));
  }
  const Count tiles = all_rows / min_rows + batch * heads_kv;
  // Splits that the engine chooses are those of a sequence's only tile, where it has more than one. Keys that some rows
  // attend may begin anywhere in their first split.
  const Count keys = keys_of(a, std::clamp<int64_t>(call.max_seqlen_q, 1, max_rows));
  const Count max_splits =
      std::min<Count>(ceil_div(call.max_seqlen_k, split_keys), (keys + (split_keys - 2)) / split_keys + 1);
  Count auto_splits = batch * max_splits;
  if (call.cu_seqlens_k != nullptr)
    auto_splits = std::min(auto_splits, call.rows_k / split_keys + std::min<Count>(batch, call.rows_k / split_keys));
  const bool given = call.num_splits > 0;
  const bool split = given ? call.num_splits > 1 : max_splits > 1;
  const Count split_rows = !split  ? 0
                           : given ? all_rows * call.num_splits
                                   : std::min(rows, max_rows * heads_kv) * auto_splits;
  // A sequence's items are its tiles, or the splits of its only tile.
  const bool packed = call.cu_seqlens_q != nullptr || call.cu_seqlens_k != nullptr;
  const Count items = given    ? tiles * call.num_splits
                      : packed ? tiles + heads_kv * auto_splits
                               : std::max(tiles, heads_kv * auto_splits);

  workspace.workers = std::max<int64_t>(at_most(items, threads), 1);
  const Count results = Count(rows_of_results(kernels, workspace.tile_rows)) * partial_floats(a) * sizeof(float);
  workspace.scratch_bytes = (aligned(sizeof(ForwardQueryTile)) + aligned(results) + aligned(kernel)).value();
  workspace.sequences_bytes = aligned(batch * sizeof(SequencePlan));
  workspace.counters_bytes = split ? aligned(tiles * sizeof(std::atomic<int32_t>)) : 0;
  workspace.partials_bytes = aligned(split_rows * partial_floats(a) * sizeof(float));
  return workspace;
}

ForwardPlan::ForwardPlan(const ForwardCall &call, const IsaKernels &kernels, const ForwardWorkspace &workspace,
                         char *memory)
    : sequences_(reinterpret_cast<SequencePlan *>(memory)),
      sequence_count_(call.batch),
      counters_(reinterpret_cast<std::atomic<int32_t> *>(memory + workspace.sequences_bytes.value())),
      partials_(reinterpret_cast<float *>(memory + (workspace.sequences_bytes + workspace.counters_bytes).value())),
      scratch_(memory + (workspace.sequences_bytes + workspace.counters_bytes + workspace.partials_bytes).value()),
      scratch_bytes_(static_cast<int64_t>(workspace.scratch_bytes)),
      tile_rows_(workspace.tile_rows) {
  const Attention &a = *call.attention;
  int64_t counters = 0, partials = 0;
  for (int64_t b = 0; b < call.batch; b++) {
    SequencePlan &plan = *new (&sequences_[b]) SequencePlan{};
    plan.sequence = resolve_sequence(call, b);
    plan.first_item = items_;
    plan.first_counter = counters;
    plan.first_partial = partials;
    plan.rows = plan.sequence.queries * group(call);
    plan.microkernel = &choose_microkernel(call, kernels, plan.rows);
    const bool one_tile = plan.rows <= plan.microkernel->tile_rows;
    plan.tile_rows = one_tile
                         ? plan.rows
                         : std::min(plan.rows, rows_of_tiles(*plan.microkernel, workspace.all_rows, workspace.threads));
    plan.tiles = plan.rows > 0 ? ceil_div(plan.rows, plan.tile_rows) : 0;

    const Interval attended = plan.sequence.attended(a);
    const int64_t unit = call.num_splits > 0 ? key_block : split_keys;
    plan.begin = attended.low / unit * unit;
    plan.end = attended.high;
    const int64_t keys = plan.end - plan.begin, units = std::max<int64_t>(ceil_div(keys, unit), 1);
    plan.splits = 1;
    if (call.num_splits > 0) plan.splits = std::min<int64_t>(units, call.num_splits);
    if (call.num_splits == 0 && (one_tile || a.batch_invariant)) plan.splits = units;
    plan.keys_per_split = ceil_div(units, plan.splits) * unit;
    plan.splits_in_item = call.num_splits == 0 && !one_tile;

    plan.max_heads = max_heads(call, plan);
    items_ += call.heads_kv * plan.tiles * plan.items_per_tile();
    if (plan.items_per_tile() > 1) {
      counters += call.heads_kv * plan.tiles;
      partials += call.heads_kv * plan.rows * plan.splits * partial_floats(a);
    }
    const int64_t of_a_row = static_cast<int64_t>(std::min<Count>(keys, keys_of(a, 1)).value());
    macs_ += static_cast<double>(call.heads_kv * plan.rows) * static_cast<double>(of_a_row) *
             static_cast<double>(a.head_dim + a.head_dim_v);
  }
  for (int64_t i = 0; i < counters; i++) new (&counters_[i]) std::atomic<int32_t>(0);
}

const SequencePlan &ForwardPlan::sequence_of(int64_t item) const {
  const SequencePlan *after = std::upper_bound(sequences_, sequences_ + sequence_count_, item,
                                               [](int64_t i, const SequencePlan &plan) { return i < plan.first_item; });
  return after[-1];
}

}  // namespace fa::cpu
