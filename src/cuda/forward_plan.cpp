#include "cuda/forward_plan.h"

#include <algorithm>
#include <optional>

#include "core/status.h"
#include "cuda/inputs.h"
#include "cuda/missing.h"
#include "cuda/order.h"
#include "cuda/splits.h"
#include "cuda/tensor_maps.h"
#include "cuda/tickets.h"
#include "forward/combine/tiles.h"
#include "forward/mma/tiles.h"
#include "forward/tcgen05/tiles.h"
#include "forward/wgmma/tiles.h"

namespace fa::cuda {
namespace {

using kernels::Entry;
using kernels::TileConfig;

/// True when each row of values is the first columns of the row of keys: latent attention.
bool values_are_in_keys(const kernels::Params &p) {
  return p.k.data == p.v.data && std::ranges::equal(p.k.stride, p.v.stride) && p.head_dim_v <= p.head_dim;
}

/// An entry point that may run a call.
struct Candidate {
  const Image *image;
  Entry entry;
  TileConfig tile;
  TilingChoice tiling;
};

/// The entry points of an op's images, best first. Tensor maps are not encoded here.
class Candidates {
 public:
  Candidates(const ForwardCall &call, const KernelSet &kernels, const Device &device, ForwardPlan *plan)
      : p_(call), kernels_(kernels), device_(device), plan_(plan) {}

  /// The next one that supports the call, after the plan has noted the reason of each that does not.
  std::optional<Candidate> next() {
    for (; image_ < kernels_.count; image_++, entry_ = 0, has_any_ = false) {
      const Image &image = *kernels_.images[image_];
      const TilingChoice usual = default_tiling_of(p_, image, kernels_, device_);
      const Entry entries[] = {Entry::narrow, Entry::plain, Entry::score_mod, Entry::general, usual.entry};
      while (entry_ < std::size(entries)) {
        const Entry entry = entries[entry_++];
        const TileConfig tile = image.tile_of(entry);
        const TilingChoice tiling = tile.splits_and_packs ? tiling_of(p_, image, tile, kernels_, device_) : usual;
        if (!image.has(entry) || !may_take(entry, tile, tiling)) continue;
        has_any_ = true;
        const char *why = unsupported_reason(image, entry, tile, tiling);
        if (why == nullptr) return Candidate{&image, entry, tile, tiling};
        plan_->reject(image, entry, why);
      }
      if (!has_any_) plan_->reject(image, usual.entry, "the family does not have it");
    }
    return std::nullopt;
  }

 private:
  bool may_take(Entry entry, const TileConfig &tile, const TilingChoice &tiling) const {
    const bool invariant = p_.attention->batch_invariant;                    // rows of any number, by one entry point
    const bool few = tiling.entry == Entry::decode && !tile.values_in_keys;  // which then reads half as much as others
    return entry == tiling.entry || (tile.splits_and_packs && !few && !invariant) || tiling.whole;
  }

  const char *unsupported_reason(const Image &image, Entry entry, const TileConfig &tile,
                                 const TilingChoice &tiling) const {
    if (wastes_rows(p_, tile, tiling)) return "few rows of heads that its tiles do not pack";
    if (const char *why = image.family->unsupported_call_reason(entry, plan_->params)) return why;
    if (!tile.alibi && plan_->params.alibi_slopes.data != nullptr) return "ALiBi at this head dimension";
    if (tile.values_in_keys && !values_are_in_keys(plan_->params))
      return "values that are not the first columns of keys";
    if (image.codes != nullptr)
      if (const char *why = image.codes->unsupported_factors_reason(plan_->params)) return why;
    return tile.box_keys > 0 ? unmappable_reason(p_, plan_->params, tile, tiling.packed) : nullptr;
  }

  const ForwardCall &p_;
  const KernelSet &kernels_;
  const Device &device_;
  ForwardPlan *plan_;
  int image_ = 0;
  size_t entry_ = 0;
  bool has_any_ = false;
};

kernels::Factors factors_of(const View &view, int64_t channels) {
  return {view_of(view), view.dtype, static_cast<int32_t>(channels)};
}

/// All but the schedule and the partial results.
kernels::QuantisedParams params_of(const ForwardCall &call) {
  kernels::QuantisedParams s = {};
  s.tree_mask = view_of(call.tree_mask), s.tree_depth = view_of(call.tree_depth);
  set_inputs(call, &s);
  s.v_dtype = call.attention->v_dtype;
  s.k_rope = view_of(call.k_rope);
  s.k_rope_dtype = call.attention->k_rope_dtype;
  s.k_dim = static_cast<int32_t>(call.attention->head_dim_k());
  s.factors[kernels::k_scale] = factors_of(call.k_scale, call.channels.k_scale);
  s.factors[kernels::v_scale] = factors_of(call.v_scale, call.channels.v_scale);
  s.factors[kernels::k_zero] = factors_of(call.k_zero, call.channels.k_zero);
  s.factors[kernels::v_zero] = factors_of(call.v_zero, call.channels.v_zero);
  s.out = view_of(call.out);
  s.lse = view_of(call.lse);
  return s;
}

/// The error of a call that no kernel of the op supports: its kernel was asked for by name, or the build left out
/// those behind it.
fa_status unsupported(const ForwardPlan &plan, const KernelSet &kernels) {
  const RejectedKernel &last = plan.rejected[plan.rejected_count - 1];
  if (!kernels.alone) return missing_forward(*last.image, last.why);
  return fail(
      FA_ERROR_UNSUPPORTED,
      "FA_FORCE_KERNEL is \"%s\", which supports some calls only, and not this one: %s; without it another kernel "
      "would run it",
      last.image->name, last.why);
}

kernels::TileSchedulerParams schedule_of(const ForwardCall &call, const TilingChoice &tiling, int rows) {
  const Tiles tiles = tiles_of(call, rows, tiling.packed);
  kernels::TileSchedulerParams schedule = {};
  schedule.tile_rows = rows;
  schedule.tiles = static_cast<int32_t>(number(tiles.count));
  schedule.sequence_tiles = static_cast<int32_t>(tiles.of_sequence);
  schedule.head_groups = static_cast<int32_t>(call.heads_q / tiling.packed);
  schedule.heads_per_tile = static_cast<int32_t>(tiling.packed);
  schedule.num_splits = static_cast<int32_t>(tiling.splits);
  schedule.split_keys = call.attention->batch_invariant ? invariant_split_keys : 0;
  return schedule;
}

/// The kernel that combines partial results.
KernelLaunch combine_of(const ForwardCall &call, const Image &image, int tile_rows, int splits) {
  KernelLaunch kernel;
  kernel.image = &image, kernel.entry = Entry::combine, kernel.tile = image.tile_of(Entry::combine);
  kernel.grid_y = kernels::combine::blocks_of_tile(tile_rows, splits);
  kernel.grid_z = kernels::combine::blocks_of_row(static_cast<int>(call.attention->head_dim_v));
  kernel.dependent = image.arch->has(kernels::pdl);
  return kernel;
}

/// Whether a kernel waits for the one before it by itself, and may be launched while that one still runs.
bool waits_by_itself(const KernelLaunch &kernel) {
  const kernels::Family *const family = kernel.image->family;
  const bool of_splits = kernel.entry == Entry::split || kernel.entry == Entry::decode;
  return ((family == &kernels::mma::family && of_splits) || family == &kernels::wgmma::family) &&
         kernel.image->arch->has(kernels::pdl);
}

/// The launches of the last tiles, whose keys are split, and of combine.
void add_splits(const ForwardCall &call, const Image &combine, LaunchLoop *loop, ForwardPlan *plan) {
  const KernelLaunch &kernel = loop->kernels[0];
  const int64_t splits = loop->schedule.num_splits;
  if (call.num_splits != 0 || call.attention->batch_invariant)
    loop->tiles_per_launch = std::clamp<int64_t>(max_partial_bytes / (splits * tile_bytes(call, kernel.tile.rows)), 1,
                                                 loop->tiles_per_launch);
  const int64_t rows = loop->tiles_per_launch * kernel.tile.rows;
  plan->params.partial_rows = rows;
  plan->workspace.add<&kernels::Params::o_partial>(splits * rows * call.attention->head_dim_v);
  plan->workspace.add<&kernels::Params::ml_partial>(splits * rows * 2);
  loop->kernels[loop->kernel_count++] = combine_of(call, combine, kernel.tile.rows, static_cast<int>(splits));
}

/// A loop of the tiles from `first` up to `end`.
LaunchLoop &add_loop(const KernelLaunch &kernel, const kernels::TileSchedulerParams &schedule, int64_t first,
                     int64_t end, int64_t splits, ForwardPlan *plan) {
  LaunchLoop &loop = plan->loop[plan->loop_count++];
  KernelLaunch &own = loop.kernels[loop.kernel_count++];
  if (&own != &kernel) own = kernel;
  own.blocks_per_tile = splits;
  loop.schedule = schedule;
  loop.schedule.num_splits = static_cast<int32_t>(splits);
  loop.first_tile = first, loop.tiles = end - first;
  loop.tiles_per_launch = std::min(loop.tiles, max_blocks / splits);
  return loop;
}

/// The launches of a kernel that has been chosen, the first loop's first: of tiles that are not split, of others, or of
/// both. Their order is one, and follows from the number of splits that most tiles have.
void add_loops(const ForwardCall &call, const TilingChoice &tiling, const KernelSet &kernels, const Device &device,
               ForwardPlan *plan) {
  KernelLaunch &kernel = plan->loop[0].kernels[0];
  kernel.tile.rows = static_cast<int>(rows_of(kernel.tile, tiling.packed));
  kernel.takes_over = kernel.image->family == &kernels::tcgen05::family;
  kernel.dependent = waits_by_itself(kernel);
  plan->slots = max_active_blocks(kernel.entry, kernel.tile, device);
  const int64_t tiles = number(all_tiles_of(call, kernel.tile.rows, tiling.packed));
  const int64_t unsplit = tiling.splits == 1 ? tiles : tiling.unsplit_tiles;
  kernels::TileSchedulerParams schedule = schedule_of(call, tiling, kernel.tile.rows);
  if (unsplit > 0) schedule.num_splits = 1;
  set_order(call, device, kernel.tile, plan->slots, &schedule);
  if (unsplit > 0) add_loop(kernel, schedule, 0, unsplit, 1, plan);
  if (unsplit < tiles && kernels.shared == nullptr) {
    plan->status = missing_combine(tiling.splits);
    return;
  }
  if (unsplit < tiles)
    add_splits(call, *kernels.shared, &add_loop(kernel, schedule, unsplit, tiles, tiling.splits, plan), plan);
  add_tickets(call, device, plan);
}

}  // namespace

ForwardPlan plan_of(const ForwardCall &call, const KernelSet &kernels, const Device &device) {
  ForwardPlan plan;
  plan.params = params_of(call);
  Candidates candidates(call, kernels, device, &plan);
  while (const std::optional<Candidate> candidate = candidates.next()) {
    KernelLaunch &kernel = plan.loop[0].kernels[0];
    kernel.image = candidate->image, kernel.entry = candidate->entry, kernel.tile = candidate->tile;
    if (kernel.tile.box_keys > 0) {
      if (const char *why =
              encode_maps(call, call.out, kernel.tile, candidate->tiling.packed, &kernel.maps.emplace())) {
        plan.reject(*kernel.image, kernel.entry, why);
        kernel = {};
        continue;
      }
    }
    add_loops(call, candidate->tiling, kernels, device, &plan);
    return plan;
  }
  plan.status = unsupported(plan, kernels);
  return plan;
}

Count workspace_bound(const ForwardCall &call, const KernelSet &kernels, const Device &device) {
  int64_t max_bytes = 0;
  for (const Image *image : kernels)
    for (const Entry entry : {Entry::narrow, Entry::plain, Entry::score_mod, Entry::split})
      if (const TileConfig tile = image->tile_of(entry);
          tile.splits_and_packs || (entry == Entry::split && tile.rows > 0)) {
        const bool tickets = has_tickets(*image) && has_long_work(call, tile);
        max_bytes = std::max<int64_t>(max_bytes, bound_of(call, tile, device) + (tickets ? sizeof(uint32_t) : 0));
      }
  return max_bytes;
}

std::string log_line(const ForwardPlan &plan) {
  const KernelLaunch &kernel = plan.kernel();
  if (kernel.image == nullptr) return "";
  std::string text = std::string("call: ") + kernel.image->name + " " + name_of(kernel.entry);
  if (plan.loop_count > 1)
    text.append(", the last ")
        .append(std::to_string(plan.last().tiles))
        .append(" of ")
        .append(std::to_string(plan.tiles()))
        .append(" tiles in");
  else if (plan.splits() > 1)
    text.append(",");
  if (plan.splits() > 1) text.append(" ").append(std::to_string(plan.splits())).append(" splits");
  if (plan.tickets) text.append(", by tickets");
  for (int i = 0; i < plan.rejected_count; i++) {
    const RejectedKernel &rejected = plan.rejected[i];
    text.append("; not ").append(rejected.image->name).append(" ").append(name_of(rejected.entry));
    text.append(": ").append(rejected.why);
  }
  return text;
}

}  // namespace fa::cuda
