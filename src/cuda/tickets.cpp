#include "cuda/tickets.h"

#include <algorithm>

#include "cuda/inputs.h"
#include "cuda/launch.h"
#include "forward/wgmma/tiles.h"

namespace fa::cuda {
namespace {

using kernels::TileConfig;

/// A stride costs half of the longest work tile, as the first block has the longest one of every round. Tickets cost
/// the microseconds in which their counter is cleared: in that time a multiprocessor of an H200 does a quarter of this
/// many multiply-adds.
constexpr int64_t min_work_for_tickets = int64_t{1} << 25;

/// Those of the longest work tile.
Count multiply_adds(const ForwardCall &call, const TileConfig &tile) {
  const Attention &a = *call.attention;
  return Count(call.max_seqlen_k) * (a.head_dim + a.head_dim_v) * tile.rows;
}

/// Work tiles of one length end together by a stride, too, but not where another kernel occupies multiprocessors, or
/// one is slow: some blocks would begin when others end. Where each has this many multiply-adds on the average,
/// clearing the counter costs less than a hundredth of that.
constexpr int64_t min_even_work_for_tickets = int64_t{1} << 30;

/// Whether blocks take tickets in a call: where its work tiles differ in length, and a stride would hand them out
/// unevenly; or where the call is long, and its multiprocessors may differ.
bool takes_tickets(const ForwardCall &call, const ForwardPlan &plan, const Device &device) {
  const KernelLaunch &kernel = plan.kernel();
  const LaunchLoop &loop = plan.loop[0];
  const bool uneven = plan.params.has_key_bounds != 0 || plan.params.is_varlen != 0;
  if (!has_tickets(*kernel.image) || !has_long_work(call, kernel.tile)) return false;
  if (plan.splits() > 1 || loop.rounds() > 1) return false;  // a call does without tickets, not without partial results
  const int64_t grid = grid_of(kernel.tile, loop.tiles, device, call.cu_seqlens_q != nullptr);
  if (!uneven && multiply_adds(call, kernel.tile) * loop.tiles < Count(min_even_work_for_tickets) * grid) return false;
  return grid < loop.tiles;
}

/// Where a call has more work tiles than blocks remember tickets, it is several launches of equal size: three quarters
/// of the blocks suffice for one, as others may begin late.
int64_t tiles_per_launch_by_tickets(const LaunchLoop &loop, const Device &device, bool packed) {
  const int64_t max_of_block = kernels::wgmma::max_work_tiles * 3 / 4;
  const int64_t max_tiles = grid_of(loop.kernels[0].tile, loop.tiles, device, packed) * max_of_block;
  return ceil_div(loop.tiles, ceil_div(loop.tiles, max_tiles));
}

}  // namespace

bool has_tickets(const Image &image) {
  return image.family == &kernels::wgmma::family;
}

bool has_long_work(const ForwardCall &call, const TileConfig &tile) {
  return multiply_adds(call, tile) >= Count(min_work_for_tickets);
}

void add_tickets(const ForwardCall &call, const Device &device, ForwardPlan *plan) {
  if (!takes_tickets(call, *plan, device)) return;
  plan->tickets = plan->workspace.add_unnamed<uint32_t>(1);
  LaunchLoop &loop = plan->loop[0];
  loop.kernels[0].dependent = false;  // it follows upon the clearing of its tickets
  loop.tiles_per_launch = tiles_per_launch_by_tickets(loop, device, call.cu_seqlens_q != nullptr);
}

}  // namespace fa::cuda
