#include "cuda/backward_plan.h"

#include <algorithm>
#include <string>

#include "backward/mma/tiles.h"
#include "cuda/dq_order.h"
#include "cuda/inputs.h"
#include "cuda/missing.h"
#include "cuda/order.h"
#include "cuda/splits.h"
#include "cuda/tensor_maps.h"

namespace fa::cuda {
namespace {

using kernels::Entry;
using kernels::TileConfig;
using kernels::TileSchedulerParams;

/// Rows of a head's statistics, of one sequence or of all packed ones, each of which begins at a new block.
Count stats_rows(const BackwardCall &call) {
  constexpr int64_t block = kernels::stats_block;
  return rounded_up(Count(call.rows_q), block) + (call.cu_seqlens_q != nullptr ? Count(call.batch) * block : 0);
}

kernels::BackwardParams params_of(const BackwardCall &call) {
  kernels::BackwardParams s = {};
  set_inputs(call, &s);
  s.out = view_of(call.out);
  s.lse = view_of(call.lse);
  s.dout = view_of(call.dout);
  s.dlse = view_of(call.dlse);
  s.given_delta = view_of(call.delta);
  s.dq = view_of(call.dq);
  s.dk = view_of(call.dk);
  s.dv = view_of(call.dv);
  s.dbias = view_of(call.dbias);
  s.dsinks = view_of(call.dsinks);
  s.stats_rows = number(stats_rows(call));
  std::copy(std::begin(call.dbias_shape), std::end(call.dbias_shape), s.dbias_shape);
  s.dsinks_batch = static_cast<int32_t>(call.dsinks_batch);
  s.batch_k = static_cast<int32_t>(call.batch_k);
  s.dout_dtype = call.dout.dtype;
  s.dq_dtype = call.dq.dtype;
  s.dk_dtype = call.dk.dtype;
  s.dv_dtype = call.dv.dtype;
  s.dbias_dtype = call.dbias.dtype;
  s.accumulate = call.accumulate;
  return s;
}

/// The reason why the fused kernel cannot run a call, from shapes and flags alone; nullptr where it can. Under
/// batch_invariant the set of concurrently running blocks must not change a sequence's bits.
const char *fused_rejection(const BackwardCall &call) {
  const Attention &a = *call.attention;
  if (!call.dq || !call.dk || !call.dv) return "a gradient that is not asked for";
  if (a.batch_invariant) return "FA_FLAG_BATCH_INVARIANT";
  if (!kernels::is_16_bit(a.q_dtype) || a.kv_dtype != a.q_dtype) return "q, k and v are not of one 16-bit type";
  if (call.bias) return "a bias";
  if (call.mask) return "a mask";
  if (call.kv_batch_idx != nullptr) return "sequences that may share keys";
  return nullptr;
}

/// Calls attempt(image) for the images that compute all three gradients of a call in one loop, best first, until it
/// returns nullptr; else returns why the last one does not run the call. nullptr, too, where it ran one.
template <class Try>
const char *each_fused(const BackwardCall &call, const KernelSet &kernels, const Device &device, const Try &attempt) {
  if (const char *why = fused_rejection(call)) return why;
  const char *why = "no kernel of this type and head dimension has one loop";
  for (const Image *image : kernels) {
    if (!image->has(Entry::bwd_fused)) continue;
    const bool plain_scores = image->family == &kernels::backward_mma::family;  // are those of its loop
    if (plain_scores && (call.attention->softcap != 0 || call.alibi_slopes))
      why = "a softcap or ALiBi";
    else if (image->tile_of(Entry::bwd_fused).shared_bytes > device.shared_per_block)
      why = "one loop needs more shared memory than the device has";
    else
      why = attempt(*image);
    if (why == nullptr) break;
  }
  return why;
}

/// The blocks of a kernel that own this many queries of a head each.
Count query_tiles(const BackwardCall &call, int64_t rows) {
  const bool packed = call.cu_seqlens_q != nullptr;
  return tiles_of(packed, call.batch, call.rows_q, call.max_seqlen_q, rows).count * call.heads_q *
         (packed ? 1 : call.batch);
}

/// Behind the semaphores, in int32_t: the counter of blocks of keys (key_tickets), with 256 bytes for it alone, so that
/// all parts and workspaces stay aligned.
constexpr int64_t ints_of_tickets = 256 / sizeof(int32_t);

/// The workspace: statistics of rows and, where one loop sums all three gradients, the accumulator of dq.
/// image: of that loop, nullptr where there are two passes.
WorkspaceLayout<kernels::BackwardParams> layout_of(const BackwardCall &call, const Image *image) {
  using Params = kernels::BackwardParams;
  const Count rows = Count(call.heads_q) * (call.cu_seqlens_q != nullptr ? 1 : call.batch) * stats_rows(call);
  WorkspaceLayout<Params> layout;
  layout.add<&Params::row_stats>(rows);
  if (image == nullptr) return layout;
  layout.add<&Params::dq_accum>(rows * image->dim);
  const bool has_queries = query_tiles(call, kernels::stats_block) > 0;  // else nobody waits, and nothing is cleared
  if (!call.attention->nondeterministic && has_queries)
    layout.add<&Params::dq_semaphore>(rows / int64_t{kernels::dq_semaphore_rows} + ints_of_tickets);
  if (kernels::scales_gradients(call.attention->q_dtype))
    layout.add<&Params::row_factors>(rows / int64_t{kernels::stats_block});
  return layout;
}

/// Adds kernels to a plan.
class Planner {
 public:
  Planner(const BackwardCall &call, const KernelSet &kernels, const Device &device, BackwardPlan *plan)
      : call_(call), kernels_(kernels), device_(device), plan_(plan) {}

  /// The launch of an entry point, by the first image that has it and supports the call. A build with FA_IMAGE_FILTER
  /// may lack it: the launch then has no image, and the plan's status is an error.
  KernelLaunch best(Entry entry) const {
    if (kernels_.shared != nullptr && kernels_.shared->has(entry)) return launch_of(*kernels_.shared, entry);
    const Image *last = nullptr;
    const char *why = nullptr;
    for (const Image *image : kernels_) {
      if (!image->has(entry)) continue;
      KernelLaunch kernel = launch_of(*image, entry);
      kernel.why_no_better = why;
      why = unsupported_reason(kernel);
      if (why == nullptr) why = encode_maps_of(&kernel);
      if (why == nullptr) return kernel;
      last = image;
    }
    if (plan_->status == FA_OK) plan_->status = missing_backward(entry, last, why);
    return {};
  }

  /// Adds dk, dv and dq in one loop where that suits the call; else returns why not.
  const char *add_fused() {
    return each_fused(call_, kernels_, device_, [this](const Image &image) -> const char * {
      KernelLaunch kernel = launch_of(image, Entry::bwd_fused);
      if (const char *why = unsupported_reason(kernel)) return why;
      const bool any_order = call_.attention->nondeterministic;
      if (!any_order && !fixed_order_pays(call_, image, kernel.tile, device_))
        return "a fixed order of sums would keep blocks waiting for too long; FA_FLAG_NONDETERMINISTIC does without it";
      if (const char *why = encode_maps_of(&kernel)) return why;
      plan_->fixed_order = !any_order;
      plan_->params.dq_columns = image.dim;
      plan_->workspace = layout_of(call_, &image);
      add_keys(kernel);
      add_queries(best(Entry::dq_postprocess));
      return nullptr;
    });
  }

  /// Adds a kernel whose blocks own queries: delta, dq or dq_postprocess.
  void add_queries(const KernelLaunch &kernel) {
    if (kernel.image == nullptr) return;
    const TileConfig &tile = kernel.tile;
    const Tiles tiles =
        tiles_of(call_.cu_seqlens_q != nullptr, call_.batch, call_.rows_q, call_.max_seqlen_q, tile.rows);
    const int64_t all = number(query_tiles(call_, tile.rows));
    TileSchedulerParams schedule = schedule_of(tile.rows, tiles, call_.heads_q);
    if (all > 0) set_order(call_, device_, tile, max_active_blocks(kernel.entry, tile, device_), &schedule);
    add(kernel, schedule, all, call_.attention->head_dim);
  }

  /// Adds a kernel whose blocks own keys. Sequences may share keys under kv_batch_idx, so they are the cache's.
  void add_keys(const KernelLaunch &kernel) {
    if (kernel.image == nullptr) return;
    const TileConfig &tile = kernel.tile;
    const int64_t longest = call_.kv_batch_idx != nullptr ? call_.rows_k : call_.max_seqlen_k;
    const Tiles tiles = tiles_of(call_.cu_seqlens_k != nullptr, call_.batch, call_.rows_k, longest, tile.keys);
    const int64_t columns = call_.batch_k * call_.heads_kv, all = number(tiles.count * columns);
    TileSchedulerParams schedule = schedule_of(tile.keys, tiles, call_.heads_kv);
    if (all > 0)
      schedule.l2_section =
          key_l2_section(call_, device_, tile, max_active_blocks(kernel.entry, tile, device_), columns);
    add(kernel, schedule, all, std::max(call_.attention->head_dim, call_.attention->head_dim_v));
  }

  void add_bias() {
    const KernelLaunch kernel = best(Entry::dbias);
    if (kernel.image == nullptr) return;
    const int64_t *shape = call_.dbias_shape;
    const Count tiles =
        Count(shape[0]) * shape[1] * ceil_div(shape[2], kernel.tile.rows) * ceil_div(shape[3], kernel.tile.keys);
    add(kernel, {}, number(tiles), 0);
  }

  void add_sinks() {
    const KernelLaunch kernel = best(Entry::dsinks);
    if (kernel.image != nullptr) add(kernel, {}, call_.dsinks_batch * call_.heads_q, 0);
  }

 private:
  static KernelLaunch launch_of(const Image &image, Entry entry) {
    KernelLaunch kernel;
    kernel.image = &image, kernel.entry = entry, kernel.tile = image.tile_of(entry);
    return kernel;
  }

  const char *unsupported_reason(const KernelLaunch &kernel) const {
    if (const char *why = kernel.image->family->unsupported_backward_reason(kernel.entry, plan_->params)) return why;
    return kernel.tile.box_keys > 0 ? unmappable_reason(call_, plan_->params, kernel.tile, 1) : nullptr;
  }

  /// nullptr, or why the driver refuses.
  const char *encode_maps_of(KernelLaunch *kernel) const {
    if (kernel->tile.box_keys == 0) return nullptr;
    if (const char *why = encode_maps(call_, call_.dout, kernel->tile, 1, &kernel->maps.emplace())) return why;
    return kernel->maps->rows_of_out != kernel->tile.box_out ? "dout that is not copied in boxes" : nullptr;
  }

  static TileSchedulerParams schedule_of(int rows, const Tiles &tiles, int64_t heads) {
    TileSchedulerParams schedule = {};
    schedule.tile_rows = rows;
    schedule.tiles = static_cast<int32_t>(number(tiles.count));
    schedule.sequence_tiles = static_cast<int32_t>(tiles.of_sequence);
    schedule.head_groups = static_cast<int32_t>(heads);
    schedule.heads_per_tile = 1;
    schedule.num_splits = 1;
    return schedule;
  }

  /// A kernel in a separate loop, unless it has no tiles. dim: of the gradient, 0 where one block sums all of it.
  void add(const KernelLaunch &kernel, const TileSchedulerParams &schedule, int64_t tiles, int64_t dim) {
    if (tiles == 0) return;
    LaunchLoop &loop = plan_->loop[plan_->loop_count++];
    loop.schedule = schedule;
    loop.tiles = tiles, loop.tiles_per_launch = std::min(tiles, max_blocks);
    loop.kernels[loop.kernel_count++] = kernel;
    if (const int columns = kernel.tile.columns; columns > 0)
      loop.kernels[0].grid_y = static_cast<int>(ceil_div(dim, columns));
  }

  const BackwardCall &call_;
  const KernelSet &kernels_;
  const Device &device_;
  BackwardPlan *plan_;
};

}  // namespace

BackwardPlan plan_of(const BackwardCall &call, const KernelSet &kernels, const Device &device) {
  BackwardPlan plan;
  plan.params = params_of(call);
  plan.workspace = layout_of(call, nullptr);
  Planner planner(call, kernels, device, &plan);
  planner.add_queries(planner.best(Entry::delta));
  if (call.dsinks) planner.add_sinks();
  if (const char *why = planner.add_fused()) {
    const int before = plan.loop_count;
    if (call.dk || call.dv) planner.add_keys(planner.best(Entry::dkv));
    if (call.dq) planner.add_queries(planner.best(Entry::dq));
    if (plan.loop_count - before == 2) plan.why_two_passes = why;
  }
  if (call.dbias) planner.add_bias();
  return plan;
}

Count workspace_bound(const BackwardCall &call, const KernelSet &kernels, const Device &device) {
  Count max_bytes = layout_of(call, nullptr).bytes();
  each_fused(call, kernels, device, [&](const Image &image) {
    max_bytes = std::max(max_bytes, layout_of(call, &image).bytes());
    return "";  // and the next one
  });
  return max_bytes;
}

std::string log_line(const BackwardPlan &plan) {
  std::string text;
  for (const LaunchLoop &loop : plan.loops()) {
    const KernelLaunch &kernel = loop.kernels[0];
    text.append(text.empty() ? "backward: " : ", ")
        .append(kernel.image->name)
        .append(" ")
        .append(name_of(kernel.entry));
    if (kernel.entry == Entry::bwd_fused) text.append(plan.fixed_order ? " in a fixed order" : " in any order");
    if (kernel.why_no_better != nullptr) text.append(" (no better one: ").append(kernel.why_no_better).append(")");
  }
  if (plan.why_two_passes != nullptr) text.append("; in two passes: ").append(plan.why_two_passes);
  return text;
}

}  // namespace fa::cuda
