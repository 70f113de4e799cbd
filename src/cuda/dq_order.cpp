#include "cuda/dq_order.h"

#include <algorithm>
#include <cmath>

#include "backward/mma/tiles.h"
#include "cuda/inputs.h"
#include "cuda/order.h"
#include "cuda/splits.h"

namespace fa::cuda {
namespace {

using kernels::Entry;
using kernels::TileConfig;

/// Tiles of keys that all queries attend. Under a causal mask or a window the next tile has fewer queries, or later
/// ones.
int64_t tiles_alike(const BackwardCall &call, const TileConfig &tile) {
  const Attention &a = *call.attention;
  const int64_t ahead = a.mask != FA_MASK_NONE ? 0 : a.window_right, apart = call.max_seqlen_k - call.max_seqlen_q;
  int64_t keys = call.max_seqlen_k;
  if (ahead >= 0 && call.q_offset == nullptr) {
    keys = std::min(keys, apart + ahead);
    if (a.window_left >= 0) keys = std::min(keys, a.window_left + ahead - call.max_seqlen_q);
  }
  return ceil_div(std::max<int64_t>(keys, 0), tile.keys);
}

/// The longest wait that pays, as a part of the time of a call. Blocks with the same queries add to dq in a fixed
/// order, each a step behind the one before it, unless it begins at other rows or has fewer. Two passes cost 0.4 more:
/// seven products instead of five.
constexpr double max_wait_fraction = 0.3;

/// Steps from a block's addition to dq to the next block's: one where a separate role adds.
int64_t steps_between_additions(const Image &image) {
  return image.family == &kernels::backward_mma::family ? 2 : 1;
}

}  // namespace

bool fixed_order_pays(const BackwardCall &call, const Image &image, const TileConfig &tile, const Device &device) {
  const Attention &a = *call.attention;
  auto queries = static_cast<double>(call.max_seqlen_q);  // that attend a block's keys
  if (a.window_left >= 0 && (a.mask == FA_MASK_CAUSAL || a.window_right >= 0))
    queries = std::min(queries, static_cast<double>(a.window_left + std::max<int64_t>(a.window_right, 0) + tile.keys));
  if (a.chunk > 0) queries = std::min(queries, static_cast<double>(a.chunk + tile.keys));
  const int64_t columns = call.heads_kv, slots = max_active_blocks(Entry::bwd_fused, tile, device);
  const int64_t tiles = ceil_div(call.max_seqlen_k, tile.keys);
  if (columns == 0 || tiles == 0) return true;
  const int64_t group = key_l2_section(call, device, tile, slots, columns), together = ceil_div(slots, group);
  const double steps = std::ceil(queries / tile.rows) * static_cast<double>(call.heads_q / columns);
  const double steps_per_slot = steps * static_cast<double>(tiles * columns) / static_cast<double>(slots);
  // Under a window or chunk the next tile of keys comes to the same queries this many steps later by itself. Where that
  // is too early, a column takes the rest for each of its tiles, one after another.
  if (queries < static_cast<double>(call.max_seqlen_q)) {
    const int64_t apart = call.heads_q / columns * tile.keys / tile.rows;
    const int64_t chain =
        ceil_div(columns, group) * tiles * std::max<int64_t>(steps_between_additions(image) - apart, 0);
    if (static_cast<double>(chain) > (1 + max_wait_fraction) * std::max(steps, steps_per_slot)) return false;
  }
  const auto waits = static_cast<double>(std::min(tiles_alike(call, tile), together) - 1);
  return waits <= max_wait_fraction * std::max(steps, steps_per_slot);
}

}  // namespace fa::cuda
