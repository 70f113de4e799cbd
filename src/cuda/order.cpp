#include "cuda/order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/dtype.h"
#include "cuda/inputs.h"

namespace fa::cuda {
namespace {

/// A group's keys and values take this part of the L2: queries and results pass through it too, the blocks at work may
/// belong to two groups, and some devices have two L2s that each keep the data of their own multiprocessors.
constexpr int64_t l2_parts = 2;

/// Under a causal mask: with fewer waves than this, and enough concurrent tiles of each column, there is one section of
/// all columns: longest processing time first alone balances best.
constexpr int64_t fewest_waves = 8, enough_of_a_column = 2;

/// Late tiles are at most this part of their column: the keys that they attend are read once more.
constexpr int64_t late_parts = 8;

/// Blocks that own keys of one column and are at work side by side move the same rows: for each element of a query 12
/// bytes (q and dout read, a sum of dq in f32 read and written) while they compute ten operations a key, of which a
/// multiprocessor does some 660 a clock. So a block of n keys moves 800 / n bytes a clock, and memory is to be busy
/// half the time at most. On an A100 and an H100, which compute twice as fast, that takes three blocks.
constexpr double bytes_of_keys = 2 * 800;
constexpr int64_t fewest_side_by_side = 3;

/// Where they add to dq in a fixed order, under a causal mask each is a step behind the one before it, and all end
/// together: by a simulation n of them cost 0.7 (n - 1) / (m h) of the time, in a column of m tiles whose blocks take h
/// heads. That is to be 2 %, unless memory needs more of them. Calls that do not wait have the same order.
constexpr int64_t tiles_to_wait = 36;

/// The columns of a section: of sizes from half of the largest on, in whole steps, the one that fills the last section
/// most, so that multiprocessors end together.
int64_t choose_section(int64_t columns, int64_t max_columns, int64_t step) {
  constexpr int64_t sizes = 16;
  const int64_t largest = ceil_div(columns, ceil_div(columns, max_columns) * step) * step;
  const int64_t smallest = std::max({(largest + 1) / 2, largest - sizes * step, step});
  int64_t best = largest, last_of_best = 0;
  for (int64_t group = largest; group >= smallest; group -= step) {
    const int64_t last = (columns - 1) % group + 1;
    if (last * best > last_of_best * group) best = group, last_of_best = last;
  }
  return best;
}

/// Columns of a group: as many as share the L2, of whole key/value heads, and of whole clusters where a cluster's
/// columns are not more than that. slots: tiles that the device works on at once.
int64_t group_for(const Inputs &p, const Device &device, const kernels::TileConfig &tile,
                  const kernels::TileSchedulerParams &s, int64_t columns, int64_t slots) {
  const Attention &a = *p.attention;
  const int64_t bytes = p.max_seqlen_k * (a.head_dim + a.head_dim_v) * dtype_bytes(a.kv_dtype);
  if (s.tiles <= 1 || bytes == 0) return columns;
  const int64_t head = p.heads_q / p.heads_kv / s.heads_per_tile;  // columns of the same keys and values
  int64_t heads = std::max<int64_t>(device.l2_bytes / l2_parts / bytes, 1);
  if (is_causal_imbalanced(a)) {
    const bool few = columns < ceil_div(fewest_waves * slots, s.tiles);
    if (few && columns <= slots / enough_of_a_column) return columns;
    heads = std::max(heads, ceil_div(slots, s.tiles * head));  // at work at once anyway: they begin with long tiles
  }
  const int64_t max_columns = heads * head;
  if (max_columns >= columns) return columns;
  const int64_t clusters = std::lcm<int64_t>(head, tile.cluster), step = clusters <= max_columns ? clusters : head;
  return choose_section(columns, max_columns / step * step, step);
}

/// The short tiles of each column that come at the end of the call: where the last section begins late, its long tiles
/// would end after everything else, and these occupy the multiprocessors that would wait.
int64_t tail_tiles_for(const Inputs &p, const kernels::TileSchedulerParams &s, int64_t columns, int64_t slots) {
  if (!is_causal_imbalanced(*p.attention) || p.cu_seqlens_q != nullptr || s.l2_section >= columns) return 0;
  const double tiles = std::sqrt(static_cast<double>(slots) * s.tiles / static_cast<double>(columns)) / 2;
  return std::min(static_cast<int64_t>(std::ceil(tiles)), s.tiles / late_parts);
}

}  // namespace

bool is_causal_imbalanced(const Attention &a) {
  return a.mask != FA_MASK_NONE && a.window_left < 0 && a.chunk == 0;
}

void set_order(const Inputs &p, const Device &device, const kernels::TileConfig &tile, int64_t slots,
               kernels::TileSchedulerParams *schedule) {
  const int64_t columns = int64_t{schedule->head_groups} * (p.cu_seqlens_q != nullptr ? 1 : p.batch);
  const int64_t tiles_at_once = ceil_div(slots, schedule->num_splits);
  schedule->l2_section = group_for(p, device, tile, *schedule, columns, tiles_at_once);
  schedule->tail_tiles = static_cast<int32_t>(tail_tiles_for(p, *schedule, columns, tiles_at_once));
}

int64_t key_l2_section(const Inputs &p, const Device &device, const kernels::TileConfig &tile, int64_t slots,
                       int64_t columns) {
  const Attention &a = *p.attention;
  const int64_t heads = p.heads_q / p.heads_kv;  // that a column's blocks read
  const Count bytes = Count(p.max_seqlen_q) * heads * (a.head_dim + a.head_dim_v) * dtype_bytes(a.q_dtype);
  int64_t max_columns = device.l2_bytes / number(std::clamp<Count>(bytes * l2_parts, 1, INT64_MAX));
  if (is_causal_imbalanced(a)) {
    const double of_memory = device.memory_rate > 0 ? bytes_of_keys / tile.keys / device.memory_rate : 0;
    const int64_t side_by_side = std::max({fewest_side_by_side, static_cast<int64_t>(std::ceil(of_memory)),
                                           1 + ceil_div(p.max_seqlen_k, tile.keys) * heads / tiles_to_wait});
    max_columns = std::max(max_columns, slots / side_by_side);
  }
  return choose_section(columns, std::clamp<int64_t>(max_columns, 1, columns), 1);
}

}  // namespace fa::cuda
