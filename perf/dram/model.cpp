#include "perf/dram/model.h"

#include <limits>
#include <queue>

#include "perf/dram/blocks.h"
#include "perf/dram/cache.h"
#include "reference/random.h"

namespace fa::dram {
namespace {

using kernels::Params;
using kernels::TileConfig;
using kernels::WorkTile;

/// The blocks of a launch that run at once. Their iterations, each over a tile of keys and one of values, take about
/// the same time.
class Device {
 public:
  Device(const Params &p, const TileConfig &tile, int64_t slots, double drift, Cache *cache)
      : p_(p), tile_(tile), slots_(slots), drift_(drift), cache_(cache) {}

  void run(const std::vector<Block> &blocks, Traffic *traffic) {
    for (size_t next = 0; next < blocks.size() || !at_work_.empty();) {
      while (next < blocks.size() && at_work_.size() < static_cast<size_t>(slots_)) begin(blocks, next++);
      AtWork block = at_work_.top();
      at_work_.pop();
      now_ = block.time;
      if (block.iterations_left == 0) {
        finish(*block.block);
        traffic->taken += now_ - block.begun;
        continue;
      }
      read_iteration(*block.block, --block.iterations_left);
      block.time += block.iteration;
      at_work_.push(block);
    }
    traffic->time += now_ * static_cast<double>(slots_);
  }

 private:
  struct AtWork {
    const Block *block;
    size_t number;
    int32_t iterations_left;
    double begun, time, iteration;  // when it began, when it is at its next iteration, how long an iteration takes

    bool operator<(const AtWork &other) const {  // the first in time is on top
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  void begin(const std::vector<Block> &blocks, size_t number) {
    const Block &block = blocks[number];
    const double spread = static_cast<double>(reference::hash(number) % 1024) / 1024;
    const double iteration = 1 + drift_ * spread;
    const int32_t iterations = block.iterations(tile_);
    if (block.work.rows > 0) read_queries(block.work);
    at_work_.push({&block, number, iterations, now_, now_ + (block.work.rows > 0 ? iterations_outside * iteration : 0),
                   iteration});
  }

  int64_t rows_of(const WorkTile &w) const { return std::min(tile_.rows, w.rows - w.first_row); }

  template <class V>
  const char *row_address(const V &view, const WorkTile &w) const {
    const kernels::Row row = kernels::row_at(p_, w, w.first_row);
    return view.data + kernels::q_batch(p_, w.sequence) * view.stride[0] +
           (w.sequence.q_first + row.query) * view.stride[1] + row.head * view.stride[2];
  }

  void read_queries(const WorkTile &w) { cache_->read(row_address(p_.q, w), rows_of(w) * p_.head_dim * 2); }

  void read_iteration(const Block &block, int32_t iteration) {
    const WorkTile &w = block.work;
    const int32_t key = (block.keys.low / tile_.keys + iteration) * tile_.keys;
    const int32_t end = std::min(key + tile_.keys, w.sequence.keys);
    read_keys(p_.k, w, key, end, p_.head_dim);
    read_keys(p_.v, w, key, end, p_.head_dim_v);
    if (p_.bias.data != nullptr) read_bias(w, key, end);
  }

  /// Those of each page are a separate line.
  void read_keys(const kernels::View &view, const WorkTile &w, int32_t key, int32_t end, int32_t dim) {
    while (key < end) {
      const int32_t next = p_.page_size == 0 ? end : std::min(end, (key / p_.page_size + 1) * p_.page_size);
      cache_->read(kernels::key_row(p_, view, w.sequence, key, w.kv_head), int64_t{next - key} * dim * 2);
      key = next;
    }
  }

  void read_bias(const WorkTile &w, int32_t key, int32_t end) {
    const kernels::View &bias = p_.bias;
    const kernels::Row row = kernels::row_at(p_, w, w.first_row);
    const char *const place = bias.data + w.sequence.index * bias.stride[0] + row.head * bias.stride[1] +
                              row.query * bias.stride[2] + key * bias.stride[3];
    cache_->read(place, rows_of(w) * (end - key) * 2);
  }

  void finish(const Block &block) {
    const WorkTile &w = block.work;
    if (w.rows == 0) return;
    if (p_.schedule.num_splits == 1) {
      cache_->write(row_address(p_.out, w), rows_of(w) * p_.head_dim_v * 2);
    } else {
      cache_->write(p_.o_partial + w.partial_row * p_.head_dim_v,
                    rows_of(w) * (p_.head_dim_v + 2) * static_cast<int64_t>(sizeof(float)));
    }
  }

  const Params &p_;
  const TileConfig &tile_;
  const int64_t slots_;
  const double drift_;
  Cache *const cache_;
  std::priority_queue<AtWork> at_work_;
  double now_ = 0;
};

/// fa_combine's reads and writes after a launch of splits.
void combine(const Params &p, const TileConfig &tile, const std::vector<Block> &blocks, Cache *cache) {
  for (const Block &block : blocks) {
    const WorkTile &w = block.work;
    if (w.rows == 0) continue;
    const int64_t rows = std::min(tile.rows, w.rows - w.first_row);
    cache->read(p.o_partial + w.partial_row * p.head_dim_v,
                rows * (p.head_dim_v + 2) * static_cast<int64_t>(sizeof(float)));
    if (w.split == 0) cache->write(p.out.data + w.partial_row, rows * p.head_dim_v * 2);
  }
}

Traffic traffic_through(int64_t cache_bytes, const cuda::ForwardPlan &plan, double drift) {
  Traffic traffic;
  Cache cache(cache_bytes);
  for_each_launch(plan, [&](const Params &p, int64_t tiles) {
    const std::vector<Block> blocks = blocks_of(p, plan.kernel().tile, tiles);
    Device(p, plan.kernel().tile, plan.slots, drift, &cache).run(blocks, &traffic);
    if (p.schedule.num_splits > 1) combine(p, plan.kernel().tile, blocks, &cache);
    for (const Block &block : blocks)
      traffic.operations += 2.0 * static_cast<double>(block.scores) * (p.head_dim + p.head_dim_v);
  });
  traffic.read = cache.bytes_read(), traffic.written = cache.bytes_written();
  return traffic;
}

}  // namespace

double Traffic::bound(const Gpu &gpu) const {
  return operations / (static_cast<double>(read + written) / (gpu.bandwidth * 1e9)) * 1e-12;
}

Traffic traffic_of(const cuda::ForwardPlan &plan, const Gpu &gpu, double drift) {
  return traffic_through(gpu.l2_bytes / gpu.l2s, plan, drift);
}

Traffic min_traffic_of(const cuda::ForwardPlan &plan) {
  return traffic_through(std::numeric_limits<int64_t>::max() / 2, plan, 0);
}

cuda::ForwardPlan one_group(const cuda::ForwardPlan &plan) {
  cuda::ForwardPlan one = plan;
  for (cuda::LaunchLoop &loop : one.loop) {
    loop.schedule.l2_section = std::numeric_limits<int64_t>::max();
    loop.schedule.tail_tiles = 0;
  }
  return one;
}

}  // namespace fa::dram
