#include "cpu/backward/backward.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "cpu/backward/head.h"
#include "cpu/backward/scores.h"

namespace fa::cpu {

namespace {

/// The rest of a head with fewer multiplications stays with its worker: all workers synchronise after every phase that
/// they process together.
constexpr double min_shared_macs = 4e6;

/// The heads in the workspace's slots.
class Slots {
 public:
  Slots(const BackwardPlan &plan, const ThreadTeam &team) : plan_(plan), team_(team), count_(plan.workspace().slots) {
    for (int64_t i = 0; i < count_; i++) new (plan.slot(i)) BackwardHead(plan);
  }

  /// Heads 0 .. heads - 1, one at a time by each worker. When most workers are idle, all workers finish the heads of
  /// the few others together: one of these may be slow.
  void run_per_worker(int64_t heads) const {
    const int64_t workers = std::min(team_.workers(), heads), few = workers > 1 ? std::max<int64_t>(workers / 4, 1) : 0;
    std::atomic<int64_t> busy{workers};
    const auto run = [&](int64_t worker, int64_t index) {
      BackwardHead &head = begin(worker, index);
      head.run(plan_.scratch(worker),
               [&] { return busy.load(std::memory_order_relaxed) <= few && head.remaining_macs() >= min_shared_macs; });
    };
    team_.parallel_for(heads, run, [&] { busy.fetch_sub(1, std::memory_order_relaxed); });
    finish_cooperatively();
  }

  /// Heads first .. last - 1, by all workers together.
  void run_cooperatively(int64_t first, int64_t last) const {
    for (; first < last; first += count_) {
      for (int64_t i = 0; i < std::min(count_, last - first); i++) begin(i, first + i);
      finish_cooperatively();
    }
  }

 private:
  BackwardHead &begin(int64_t slot, int64_t index) const {
    return *new (plan_.slot(slot)) BackwardHead(plan_, index, plan_.slot(slot));
  }

  /// One phase of every active head at a time.
  void finish_cooperatively() const {
    BackwardHead **const heads = plan_.active_heads();
    while (const int64_t count = list_active(heads)) {
      int64_t items = 0;
      for (int64_t i = 0; i < count; i++) {
        // Under a causal mask up to half of the groups are empty.
        heads[i]->set_granularity(false);
        heads[i]->set_granularity(heads[i]->items() * count % (2 * team_.workers()) != 0);
        items = std::max(items, heads[i]->items());
      }
      team_.parallel_for(items * count, [&](int64_t worker, int64_t item) {
        heads[item % count]->run_item(item / count, plan_.scratch(worker));
      });
      for (int64_t i = 0; i < count; i++) heads[i]->advance();
    }
  }

  /// Heads that are not done.
  int64_t list_active(BackwardHead **heads) const {
    int64_t count = 0;
    for (int64_t i = 0; i < count_; i++) {
      auto *const head = std::launder(reinterpret_cast<BackwardHead *>(plan_.slot(i)));
      if (!head->done()) heads[count++] = head;
    }
    return count;
  }

  const BackwardPlan &plan_;
  const ThreadTeam &team_;
  int64_t count_;
};

}  // namespace

void run_backward(const BackwardPlan &plan, const ThreadTeam &team) {
  const BackwardCall &call = plan.call();
  const int64_t scores = static_cast<int64_t>(score_items(call, plan.microkernel()).value());
  team.parallel_for(scores, [&](int64_t worker, int64_t item) { compute_scores(plan, item, plan.scratch(worker)); });
  if (!call.dq && !call.dk && !call.dv) return;
  const int64_t independent = plan.independent_heads(team.workers());
  const Slots slots(plan, team);
  slots.run_per_worker(independent);
  slots.run_cooperatively(independent, plan.heads());
}

}  // namespace fa::cpu
