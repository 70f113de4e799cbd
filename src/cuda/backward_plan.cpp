#include "cuda/backward_plan.h"

#include <algorithm>
#include <cmath>

#include "cuda/derive.h"
#include "cuda/inputs.h"
#include "cuda/order.h"
#include "cuda/splits.h"

namespace fa::cuda {
namespace {

using kernels::Entry;
using kernels::TileConfig;

/// Rows of terms of a head: of each sequence, unless they are packed, where each begins at a block of its own.
Count stats_rows(const BackwardCall &c) {
  constexpr int64_t block = kernels::stats_block;
  return rounded_up(Count(c.rows_q), block) + (c.cu_seqlens_q != nullptr ? Count(c.batch) * block : 0);
}

kernels::BackwardParams params_of(const BackwardCall &c) {
  kernels::BackwardParams s = {};
  set_inputs(c, &s);
  s.out = view_of(c.out);
  s.lse = view_of(c.lse);
  s.dout = view_of(c.dout);
  s.dlse = view_of(c.dlse);
  s.given_delta = view_of(c.delta);
  s.dq = view_of(c.dq);
  s.dk = view_of(c.dk);
  s.dv = view_of(c.dv);
  s.dbias = view_of(c.dbias);
  s.dsinks = view_of(c.dsinks);
  s.stats_rows = number(stats_rows(c));
  std::copy(std::begin(c.dbias_shape), std::end(c.dbias_shape), s.dbias_shape);
  s.dsinks_batch = static_cast<int32_t>(c.dsinks_batch);
  s.batch_k = static_cast<int32_t>(c.batch_k);
  s.dout_dtype = c.dout.dtype;
  s.dq_dtype = c.dq.dtype;
  s.dk_dtype = c.dk.dtype;
  s.dv_dtype = c.dv.dtype;
  s.dbias_dtype = c.dbias.dtype;
  s.accumulate = c.accumulate;
  derive(&s);  // families look at layouts
  return s;
}

/// The reason why the fused kernel cannot run a call, from shapes and flags alone; nullptr where it can. Under
/// batch_invariant the set of concurrently running blocks must not change a sequence's bits.
const char *fused_rejection(const BackwardCall &c) {
  const Attention &a = *c.attention;
  if (!c.dq || !c.dk || !c.dv) return "a gradient that is not asked for";
  if (a.batch_invariant) return "FA_FLAG_BATCH_INVARIANT";
  if (!kernels::is_16_bit(a.q_dtype) || a.kv_dtype != a.q_dtype) return "q, k and v are not of one 16-bit type";
  if (a.softcap != 0) return "a softcap";
  if (c.bias) return "a bias";
  if (c.mask) return "a mask";
  if (c.alibi_slopes) return "ALiBi";
  if (c.kv_batch_idx != nullptr) return "sequences that may share keys";
  return nullptr;
}

struct Summing {
  const Image *image;  // that computes all three gradients in one loop; nullptr: the call takes two passes
  const char *reason;  // where there is no image
};

Summing summing_of(const BackwardCall &c, const Gradients &gradients, const Device &device) {
  if (const char *why = fused_rejection(c)) return {nullptr, why};
  const char *why = "no kernel of this type and head dimension has one loop";
  for (int i = 0; i < gradients.count; i++) {
    const Image *image = gradients.images[i];
    if (!image->has(Entry::bwd_fused)) continue;
    if (image->tile_of(Entry::bwd_fused).shared_bytes <= device.shared_per_block) return {image, nullptr};
    why = "one loop needs more shared memory than the device has";
  }
  return {nullptr, why};
}

/// Tiles of keys that all queries attend. Under a causal mask or a window the next tile has fewer queries, or later
/// ones.
int64_t tiles_alike(const BackwardCall &c, const TileConfig &tile) {
  const Attention &a = *c.attention;
  const int64_t ahead = a.mask != FA_MASK_NONE ? 0 : a.window_right, apart = c.max_seqlen_k - c.max_seqlen_q;
  int64_t keys = c.max_seqlen_k;
  if (ahead >= 0 && c.q_offset == nullptr) {
    keys = std::min(keys, apart + ahead);
    if (a.window_left >= 0) keys = std::min(keys, a.window_left + ahead - c.max_seqlen_q);
  }
  return ceil_div(std::max<int64_t>(keys, 0), tile.keys);
}

/// Of blocks with the same queries that add to dq in turns, each is a step behind the one before it; others have begun
/// at rows that those do not have, or have less to do. Two passes compute two products more, two steps in five.
constexpr double max_wait_fraction = 0.3;

/// By one sequence, so that the batch does not decide on anybody's bits.
bool fixed_order_pays(const BackwardCall &c, const TileConfig &tile, const Device &device) {
  const Attention &a = *c.attention;
  auto queries = static_cast<double>(c.max_seqlen_q);  // that attend a block's keys
  if (a.window_left >= 0 && (a.mask == FA_MASK_CAUSAL || a.window_right >= 0))
    queries = std::min(queries, static_cast<double>(a.window_left + std::max<int64_t>(a.window_right, 0) + tile.keys));
  if (a.chunk > 0) queries = std::min(queries, static_cast<double>(a.chunk + tile.keys));
  const int64_t columns = c.heads_kv, slots = max_active_blocks(Entry::bwd_fused, tile, device);
  const int64_t tiles = ceil_div(c.max_seqlen_k, tile.keys);
  if (columns == 0 || tiles == 0) return true;
  const int64_t together = ceil_div(slots, group_of_keys(c, device, tile, slots, columns));
  const double steps = std::ceil(queries / tile.rows) * static_cast<double>(c.heads_q / columns);
  const double of_a_place = steps * static_cast<double>(tiles * columns) / static_cast<double>(slots);
  const auto waits = static_cast<double>(std::min(tiles_alike(c, tile), together) - 1);
  return waits <= max_wait_fraction * std::max(steps, of_a_place);
}

/// Adds steps to a plan.
class Planner {
 public:
  Planner(const BackwardCall &call, const Gradients &gradients, const Device &device, BackwardPlan *plan)
      : c_(call), gradients_(gradients), device_(device), plan_(plan) {}

  /// dk, dv and dq in one loop, if that is right for the call. Returns why it is not; nullptr: it is.
  const char *add_gradients() {
    const auto [image, reason] = summing_of(c_, gradients_, device_);
    if (image == nullptr) return reason;
    if (const char *why = image->family->unsupported_backward_reason(Entry::bwd_fused, plan_->params)) return why;
    const bool any_order = c_.attention->nondeterministic;
    if (!any_order && !fixed_order_pays(c_, image->tile_of(Entry::bwd_fused), device_))
      return "blocks would wait too long for their turns, which FA_FLAG_NONDETERMINISTIC does without";
    plan_->in_turns = !any_order;
    plan_->params.dq_columns = image->dim;
    add_keys(Entry::bwd_fused);
    add_queries(Entry::dq_postprocess);
    return nullptr;
  }

  /// Of blocks that own queries: of delta, dq and dq_accum.
  void add_queries(Entry entry) {
    KernelLaunch launch = best(entry);
    const TileConfig tile = launch.image->tile_of(entry);
    const bool packed = c_.cu_seqlens_q != nullptr;
    const Tiles tiles = tiles_of(packed, c_.batch, c_.rows_q, c_.max_seqlen_q, tile.rows);
    set_schedule(tile.rows, tiles, c_.heads_q, &launch);
    launch.tiles = number(tiles.count * c_.heads_q * (packed ? 1 : c_.batch));
    if (launch.tiles > 0) set_order(c_, device_, tile, max_active_blocks(entry, tile, device_), &launch.schedule);
    add(launch, c_.attention->head_dim);
  }

  /// Of blocks that own keys. Sequences may have the same ones under kv_batch_idx, so these are the cache's.
  void add_keys(Entry entry) {
    KernelLaunch launch = best(entry);
    const TileConfig tile = launch.image->tile_of(entry);
    const int64_t longest = c_.kv_batch_idx != nullptr ? c_.rows_k : c_.max_seqlen_k;
    const Tiles tiles = tiles_of(c_.cu_seqlens_k != nullptr, c_.batch, c_.rows_k, longest, tile.keys);
    const int64_t columns = c_.batch_k * c_.heads_kv;
    set_schedule(tile.keys, tiles, c_.heads_kv, &launch);
    launch.tiles = number(tiles.count * columns);
    if (launch.tiles > 0)
      launch.schedule.group = group_of_keys(c_, device_, tile, max_active_blocks(entry, tile, device_), columns);
    add(launch, std::max(c_.attention->head_dim, c_.attention->head_dim_v));
  }

  void add_bias() {
    KernelLaunch launch = best(Entry::dbias);
    const TileConfig tile = launch.image->tile_of(Entry::dbias);
    const int64_t *shape = c_.dbias_shape;
    launch.tiles = number(Count(shape[0]) * shape[1] * ceil_div(shape[2], tile.rows) * ceil_div(shape[3], tile.keys));
    add(launch, 0);
  }

  void add_sinks() {
    KernelLaunch launch = best(Entry::dsinks);
    launch.tiles = c_.dsinks_batch * c_.heads_q;
    add(launch, 0);
  }

 private:
  /// The first image that serves, of those that have the entry point.
  KernelLaunch best(Entry entry) const {
    KernelLaunch launch = {};
    launch.entry = entry;
    launch.image = gradients_.delta;
    if (launch.image->has(entry)) return launch;
    for (int i = 0; i < gradients_.count; i++) {
      launch.image = gradients_.images[i];
      if (!launch.image->has(entry)) continue;
      const char *why = launch.image->family->unsupported_backward_reason(entry, plan_->params);
      if (why == nullptr) break;
      launch.why_no_better = why;
    }
    return launch;
  }

  static void set_schedule(int rows, const Tiles &tiles, int64_t heads, KernelLaunch *launch) {
    kernels::TileSchedulerParams &schedule = launch->schedule;
    schedule.tile_rows = rows;
    schedule.tiles = static_cast<int32_t>(number(tiles.count));
    schedule.sequence_tiles = static_cast<int32_t>(tiles.of_sequence);
    schedule.head_groups = static_cast<int32_t>(heads);
    schedule.heads_per_tile = 1;
    schedule.num_splits = 1;
  }

  /// dim: of the gradient, 0 where one block sums all of it.
  void add(KernelLaunch launch, int64_t dim) {
    const TileConfig tile = launch.image->tile_of(launch.entry);
    launch.rows = tile.columns > 0 ? static_cast<int>(ceil_div(dim, tile.columns)) : 1;
    if (launch.tiles > 0) plan_->launches[plan_->count++] = launch;
  }

  const BackwardCall &c_;
  const Gradients &gradients_;
  const Device &device_;
  BackwardPlan *plan_;
};

}  // namespace

BackwardPlan plan_of(const BackwardCall &call, const Gradients &gradients, const Device &device) {
  BackwardPlan plan = {};
  plan.params = params_of(call);
  Planner planner(call, gradients, device, &plan);
  planner.add_queries(Entry::delta);
  if (call.dsinks) planner.add_sinks();
  if (const char *why = planner.add_gradients()) {
    const int before = plan.count;
    if (call.dk || call.dv) planner.add_keys(Entry::dkv);
    if (call.dq) planner.add_queries(Entry::dq);
    if (plan.count - before == 2) plan.why_two_passes = why;
  }
  if (call.dbias) planner.add_bias();
  return plan;
}

void BackwardPlan::place(char *workspace) {
  params.row_stats = reinterpret_cast<kernels::RowStats *>(workspace);
  if (params.dq_columns == 0) return;
  const int64_t rows = params.heads_q * params.stats_rows * (params.cu_seqlens_q != nullptr ? 1 : params.batch);
  params.dq_accum = reinterpret_cast<float *>(params.row_stats + rows);
  char *end = reinterpret_cast<char *>(params.dq_accum + rows * params.dq_columns);
  if (in_turns) {
    params.dq_semaphore = reinterpret_cast<int32_t *>(end);
    end = reinterpret_cast<char *>(params.dq_semaphore + rows / kernels::dq_semaphore_rows);
  }
  if (kernels::scales_gradients(params.q_dtype)) params.row_factors = reinterpret_cast<kernels::RowScales *>(end);
}

Count backward_workspace(const BackwardCall &c, const Gradients &gradients, const Device &device) {
  const Count rows = Count(c.heads_q) * (c.cu_seqlens_q != nullptr ? 1 : c.batch) * stats_rows(c);
  const Count terms = rows * static_cast<int64_t>(sizeof(kernels::RowStats));
  const Image *image = summing_of(c, gradients, device).image;
  if (image == nullptr) return terms;
  const Count sums = rows * image->dim * static_cast<int64_t>(sizeof(float));
  const Count turns = rows / int64_t{kernels::dq_semaphore_rows} * static_cast<int64_t>(sizeof(int32_t));
  const Count factors = rows / int64_t{kernels::stats_block} * static_cast<int64_t>(sizeof(kernels::RowScales));
  return terms + sums + (c.attention->nondeterministic ? Count(0) : turns) +
         (kernels::scales_gradients(c.attention->q_dtype) ? factors : Count(0));
}

}  // namespace fa::cuda
