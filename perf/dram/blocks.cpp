#include "perf/dram/blocks.h"

namespace fa::dram {

using kernels::Interval;
using kernels::Params;
using kernels::WorkTile;

namespace {

Block block_of(const Params &p, const kernels::TileConfig &tile) {
  Block block = {by_warp([&] { return kernels::get_initial_work_tile(p, tile.rows); }), {0, 0}, 0};
  const WorkTile &w = block.work;
  if (w.rows == 0) return block;
  const Interval split = kernels::keys_of_split(p, w.sequence, w.split, tile.keys);
  for (int32_t row = w.first_row; row < std::min(w.rows, w.first_row + tile.rows); row++) {
    Interval keys = kernels::attended(p, w.sequence, kernels::row_at(p, w, row).query);
    keys = {std::max(keys.low, split.low), std::min(keys.high, split.high)};
    if (keys.empty()) continue;
    block.scores += keys.high - keys.low;
    if (block.keys.empty()) block.keys = keys;
    block.keys = {std::min(block.keys.low, keys.low), std::max(block.keys.high, keys.high)};
  }
  return block;
}

}  // namespace

std::vector<Block> blocks_of(const Params &p, const kernels::TileConfig &tile, int64_t tiles) {
  const int64_t count = tiles * p.schedule.num_splits;
  std::vector<Block> blocks;
  gridDim.x = static_cast<uint32_t>(count);
  for (blockIdx.x = 0; blockIdx.x < count; blockIdx.x++) blocks.push_back(block_of(p, tile));
  return blocks;
}

}  // namespace fa::dram
