#include "perf/dram/hand_out.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>

#include "perf/dram/blocks.h"

namespace fa::dram {
namespace {

constexpr double slowness = 2;

constexpr double rounding = 1e-9;

/// A launch, event by event: blocks begin, and take work tiles.
class Launch {
 public:
  Launch(const std::vector<double> &lengths, const HandOut &hand_out, const Multiprocessors &on)
      : lengths_(lengths), hand_out_(hand_out), grid_(std::min(count(), hand_out.slots)) {
    for (int64_t i = 0; i < hand_out.slots / on.count; i++)
      for (int64_t number = 0; number < on.count - on.taken; number++)
        slots_.push_back({number < on.slow ? slowness : 1});
    for (size_t slot = 0; slot < slots_.size(); slot++) events_.push({0, false, slot});
  }

  End run() {
    double last = 0;
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      Slot &slot = slots_[event.slot];
      const int64_t work = next(&slot);
      if (work < 0) {
        if (!slot.is_free) events_.push({slot.end, false, event.slot});  // to another block
        slot.is_free = true;
        continue;
      }
      const double begin = std::max(slot.end, event.time);
      slot.end = begin + lengths_[static_cast<size_t>(work)] * slot.slowness;
      last = std::max(last, slot.end);
      events_.push({std::max(begin, slot.end - hand_out_.ahead * slot.slowness), true, event.slot});
    }
    return {last, even(), best()};
  }

 private:
  struct Slot {
    double slowness, end = 0;
    bool is_free = true;
    int64_t work = 0;  // of a persistent grid's block
  };
  struct Event {
    double time;
    bool asks;  // for another work tile; else a block may begin, as many at a time as there is room for
    size_t slot;
    bool operator<(const Event &other) const {  // the first in time is on top
      return std::tuple(time, asks, slot) > std::tuple(other.time, other.asks, other.slot);
    }
  };

  int64_t count() const { return static_cast<int64_t>(lengths_.size()); }

  /// The number of the work tile that a slot's block takes, or -1.
  int64_t next(Slot *slot) {
    if (hand_out_.way == HandOut::grid) return taken_ < count() ? taken_++ : -1;
    if (slot->is_free) {
      if (begun_ == grid_) return -1;
      slot->is_free = false;
      return slot->work = begun_++;
    }
    slot->work = hand_out_.way == HandOut::stride ? slot->work + grid_ : grid_ + taken_++;
    return slot->work < count() ? slot->work : -1;
  }

  double longest() const { return *std::ranges::max_element(lengths_); }

  double even() const {
    double speed = 0;
    for (const Slot &slot : slots_) speed += 1 / slot.slowness;
    return std::max(std::accumulate(lengths_.begin(), lengths_.end(), 0.0) / speed, longest());
  }

  double best() const {
    const double length = longest();
    if (length != *std::ranges::min_element(lengths_)) return even();
    for (double most = std::ceil(even() / length - rounding);; most++) {
      double done = 0;
      for (const Slot &slot : slots_) done += std::floor(most / slot.slowness);
      if (done >= static_cast<double>(count())) return most * length;
    }
  }

  const std::vector<double> &lengths_;
  const HandOut hand_out_;
  const int64_t grid_;
  int64_t begun_ = 0, taken_ = 0;
  std::vector<Slot> slots_;
  std::priority_queue<Event> events_;
};

}  // namespace

HandOut HandOut::of(const cuda::ForwardPlan &plan) {
  const cuda::KernelLaunch &kernel = plan.kernel();
  const auto copies = static_cast<double>(kernel.tile.stages);  // that are ahead of the products
  if (kernel.takes_over) return {grid, plan.slots, copies};
  if (!kernel.tile.persistent) return {grid, plan.slots};
  return plan.tickets ? HandOut{tickets, plan.slots, copies} : HandOut{stride, plan.slots};
}

End end_of(const std::vector<double> &lengths, const HandOut &hand_out, const Multiprocessors &multiprocessors) {
  return Launch(lengths, hand_out, multiprocessors).run();
}

std::vector<double> lengths_of(const cuda::ForwardPlan &plan) {
  const kernels::TileConfig &tile = plan.kernel().tile;
  const cuda::LaunchLoop &loop = plan.loop[0];
  kernels::Params params = plan.params;
  cuda::set_schedule(loop.schedule, &params);
  params.schedule.first_tile = loop.first_tile;
  std::vector<double> lengths;
  for (const Block &block : blocks_of(params, tile, std::min(loop.tiles, loop.tiles_per_launch)))
    lengths.push_back(block.iterations(tile) + (block.work.rows > 0 ? iterations_outside : 0));
  return lengths;
}

}  // namespace fa::dram
