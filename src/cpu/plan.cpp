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

int64_t group(const ForwardCall &p) {
  return p.heads_q / p.heads_kv;
}

/// Floats of one row's unfinished softmax.
int64_t partial_floats(const Attention &a) {
  return a.head_dim_v + 2;
}

std::span<const Scheme> schemes_of(const Kernels &kernels) {
  return {kernels.schemes, static_cast<size_t>(kernels.scheme_count)};
}

/// The first scheme for this many rows of a head.
const Scheme &scheme_for(const ForwardCall &p, const Kernels &kernels, int64_t rows) {
  const bool unit_stride = p.k.stride[3] == dtype_bytes(p.k.dtype) && p.v.stride[3] == dtype_bytes(p.v.dtype);
  for (const Scheme &scheme : schemes_of(kernels))
    if (scheme.serves(*p.attention) && (scheme.many_tiles || rows <= scheme.tile_rows) &&
        (scheme.any_stride || unit_stride))
      return scheme;
  return kernels.general();
}

/// True when a key's heads stand side by side in memory, and so do its values': it pays to read them together, as rows
/// of one head alone are far apart.
bool heads_interleaved(const ForwardCall &p) {
  const Attention &a = *p.attention;
  return p.heads_kv > 1 && p.k.stride[2] == a.head_dim * dtype_bytes(p.k.dtype) && p.k.stride[1] > p.k.stride[2] &&
         p.v.stride[2] == a.head_dim_v * dtype_bytes(p.v.dtype) && p.v.stride[1] > p.v.stride[2];
}

/// The heads whose items a worker may take at once.
int64_t most_heads(const ForwardCall &p, const Job &job) {
  if (!job.scheme->many_heads || !heads_interleaved(p) || job.rows == 0) return 1;
  return std::clamp<int64_t>(max_tile_rows / job.rows, 1, p.heads_kv);
}

/// The most keys that this many consecutive queries attend, as far as a window or a chunk bounds them.
Count keys_of(const Attention &a, int64_t queries) {
  const int64_t right = a.mask != FA_MASK_NONE ? 0 : a.window_right;
  Count keys = std::numeric_limits<int64_t>::max();
  if (a.window_left >= 0 && right >= 0) keys = Count(a.window_left) + right + queries;
  if (a.chunk > 0) keys = std::min(keys, rounded_up(Count(queries - 1), a.chunk) + a.chunk);
  return keys;
}

}  // namespace

/// Rows are counted over all heads of q, however they are shared out among those of k: one of these has no more in a
/// tile, and tiles of several heads may have rows of all.
Bounds Plan::bounds(const ForwardCall &p, const Kernels &kernels, int64_t threads) {
  const Attention &a = *p.attention;
  const Count batch = p.batch, heads_kv = p.heads_kv, rows = Count(p.max_seqlen_q) * p.heads_q;
  const auto at_most = [](Count count, int64_t most) {
    return static_cast<int64_t>(std::min<Count>(count, most).value());
  };
  Bounds bounds = {0, 0, 0, 0, 0, 0};
  Count kernel = 0;
  int least_rows = max_tile_rows, most_rows = 0;  // of a head's tiles where it has many, of its only one
  for (const Scheme &scheme : schemes_of(kernels)) {
    if (!scheme.serves(a)) continue;
    if (scheme.many_tiles) least_rows = std::min(least_rows, scheme.tile_rows);
    most_rows = std::max(most_rows, scheme.tile_rows);
    const Count heads = scheme.many_heads ? heads_kv : 1;
    const int64_t tile_rows = at_most(std::min(rows, scheme.tile_rows * heads), max_tile_rows);
    bounds.tile_rows = std::max(bounds.tile_rows, tile_rows);
    kernel = std::max<Count>(kernel, scheme.scratch(a, static_cast<int>(tile_rows)));
  }
  const Count all_rows = p.cu_seqlens_q != nullptr ? Count(p.rows_q) * p.heads_q : batch * rows;
  const Count tiles = all_rows / least_rows + batch * heads_kv;
  // Splits that the engine chooses are those of a sequence's only tile, where it has more than one. Keys that some rows
  // attend may begin anywhere in their first split.
  const Count keys = keys_of(a, std::clamp<int64_t>(p.max_seqlen_q, 1, most_rows));
  const Count max_splits =
      std::min<Count>(ceil_div(p.max_seqlen_k, split_keys), (keys + (split_keys - 2)) / split_keys + 1);
  Count auto_splits = batch * max_splits;
  if (p.cu_seqlens_k != nullptr)
    auto_splits = std::min(auto_splits, p.rows_k / split_keys + std::min<Count>(batch, p.rows_k / split_keys));
  const bool given = p.num_splits > 0;
  const bool split = given ? p.num_splits > 1 : max_splits > 1;
  const Count split_rows = !split  ? 0
                           : given ? all_rows * p.num_splits
                                   : std::min(rows, most_rows * heads_kv) * auto_splits;
  // A sequence is worked on by its tiles, or by the splits of its only tile.
  const bool packed = p.cu_seqlens_q != nullptr || p.cu_seqlens_k != nullptr;
  const Count items = given    ? tiles * p.num_splits
                      : packed ? tiles + heads_kv * auto_splits
                               : std::max(tiles, heads_kv * auto_splits);

  bounds.workers = std::max<int64_t>(at_most(items, threads), 1);
  // Three partial results: the total, the split that is folded into it, and the clean run that mends one of them.
  const Count results = Count(3 * bounds.tile_rows) * partial_floats(a) * sizeof(float);
  bounds.scratch_bytes = (aligned(sizeof(Tile)) + aligned(results) + aligned(kernel)).value();
  bounds.jobs_bytes = aligned(batch * sizeof(Job));
  bounds.counters_bytes = split ? aligned(tiles * sizeof(std::atomic<int32_t>)) : 0;
  bounds.partials_bytes = aligned(split_rows * partial_floats(a) * sizeof(float));
  return bounds;
}

Plan::Plan(const ForwardCall &p, const Kernels &kernels, const Bounds &bounds, char *memory)
    : jobs_(reinterpret_cast<Job *>(memory)),
      job_count_(p.batch),
      counters_(reinterpret_cast<std::atomic<int32_t> *>(memory + bounds.jobs_bytes.value())),
      partials_(reinterpret_cast<float *>(memory + (bounds.jobs_bytes + bounds.counters_bytes).value())),
      scratch_(memory + (bounds.jobs_bytes + bounds.counters_bytes + bounds.partials_bytes).value()),
      scratch_bytes_(static_cast<int64_t>(bounds.scratch_bytes)),
      tile_rows_(bounds.tile_rows) {
  const Attention &a = *p.attention;
  int64_t counters = 0, partials = 0;
  for (int64_t b = 0; b < p.batch; b++) {
    Job &job = *new (&jobs_[b]) Job{};
    job.sequence = sequence(p, b);
    job.first_item = items_;
    job.first_counter = counters;
    job.first_partial = partials;
    job.rows = job.sequence.q_len * group(p);
    job.scheme = &scheme_for(p, kernels, job.rows);
    job.tile_rows = std::min<int64_t>(job.rows, job.scheme->tile_rows);
    job.tiles = job.rows > 0 ? ceil_div(job.rows, job.tile_rows) : 0;

    const Sequence::Interval attended = job.sequence.attended(a);
    const int64_t unit = p.num_splits > 0 ? key_block : split_keys;
    job.begin = attended.low / unit * unit;
    job.end = attended.high;
    const int64_t keys = job.end - job.begin, units = std::max<int64_t>(ceil_div(keys, unit), 1);
    job.splits = 1;
    if (p.num_splits > 0) job.splits = std::min<int64_t>(units, p.num_splits);
    if (p.num_splits == 0 && (job.tiles == 1 || a.batch_invariant)) job.splits = units;
    job.keys_per_split = ceil_div(units, job.splits) * unit;
    job.splits_in_item = p.num_splits == 0 && job.tiles > 1;

    job.most_heads = most_heads(p, job);
    items_ += p.heads_kv * job.tiles * job.items_per_tile();
    if (job.items_per_tile() > 1) {
      counters += p.heads_kv * job.tiles;
      partials += p.heads_kv * job.rows * job.splits * partial_floats(a);
    }
    const int64_t of_a_row = static_cast<int64_t>(std::min<Count>(keys, keys_of(a, 1)).value());
    work_ += static_cast<double>(p.heads_kv * job.rows) * static_cast<double>(of_a_row) *
             static_cast<double>(a.head_dim + a.head_dim_v);
  }
  for (int64_t i = 0; i < counters; i++) new (&counters_[i]) std::atomic<int32_t>(0);
}

const Job &Plan::job_of(int64_t item) const {
  const Job *after =
      std::upper_bound(jobs_, jobs_ + job_count_, item, [](int64_t i, const Job &job) { return i < job.first_item; });
  return after[-1];
}

}  // namespace fa::cpu
