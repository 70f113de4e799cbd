#include "cpu/backward/backward.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "cpu/backward/head.h"
#include "cpu/backward/scores.h"

namespace fa::cpu {

namespace {

/// A rest of a head with fewer multiplications stays with its worker: all workers wait for each other after every step
/// that they take together.
constexpr double least_shared_rest = 4e6;

/// The heads of the slots.
class Slots {
 public:
  Slots(const BackwardPlan &plan, const Team &team) : plan_(plan), team_(team), count_(plan.bounds().slots) {
    for (int64_t i = 0; i < count_; i++) new (plan.slot(i)) Head(plan);
  }

  /// Heads 0 .. heads - 1, one at a time by each worker. When most workers have none left to take, those that the few
  /// others are still at are ended by all together: one of these may be slow.
  void run_alone(int64_t heads) const {
    const int64_t workers = std::min(team_.workers(), heads), few = workers > 1 ? std::max<int64_t>(workers / 4, 1) : 0;
    std::atomic<int64_t> at_work{workers};
    const auto run = [&](int64_t worker, int64_t index) {
      Head &head = begin(worker, index);
      head.run(plan_.scratch(worker),
               [&] { return at_work.load(std::memory_order_relaxed) <= few && head.left() >= least_shared_rest; });
    };
    team_.each(heads, run, [&] { at_work.fetch_sub(1, std::memory_order_relaxed); });
    end_together();
  }

  /// Heads first .. last - 1, by all workers together.
  void run_together(int64_t first, int64_t last) const {
    for (; first < last; first += count_) {
      for (int64_t i = 0; i < std::min(count_, last - first); i++) begin(i, first + i);
      end_together();
    }
  }

 private:
  Head &begin(int64_t slot, int64_t index) const {
    return *new (plan_.slot(slot)) Head(plan_, index, plan_.slot(slot));
  }

  /// A step of every head at a time.
  void end_together() const {
    Head **const heads = plan_.at_work();
    while (const int64_t count = list_at_work(heads)) {
      int64_t items = 0;
      for (int64_t i = 0; i < count; i++) {
        // Of a causal mask's groups only half may have anything to do.
        heads[i]->cut(false);
        heads[i]->cut(heads[i]->items() * count % (2 * team_.workers()) != 0);
        items = std::max(items, heads[i]->items());
      }
      team_.each(items * count, [&](int64_t worker, int64_t item) {
        heads[item % count]->run_item(item / count, plan_.scratch(worker));
      });
      for (int64_t i = 0; i < count; i++) heads[i]->advance();
    }
  }

  /// Those that are not done.
  int64_t list_at_work(Head **heads) const {
    int64_t count = 0;
    for (int64_t i = 0; i < count_; i++) {
      auto *const head = std::launder(reinterpret_cast<Head *>(plan_.slot(i)));
      if (!head->done()) heads[count++] = head;
    }
    return count;
  }

  const BackwardPlan &plan_;
  const Team &team_;
  int64_t count_;
};

}  // namespace

void run_backward(const BackwardPlan &plan, const Team &team) {
  const BackwardCall &call = plan.call();
  const int64_t scores = static_cast<int64_t>(score_items(call, plan.scheme()).value());
  team.each(scores, [&](int64_t worker, int64_t item) { compute_scores(plan, item, plan.scratch(worker)); });
  if (!call.dq && !call.dk && !call.dv) return;
  const int64_t alone = plan.heads_alone(team.workers());
  const Slots slots(plan, team);
  slots.run_alone(alone);
  slots.run_together(alone, plan.heads());
}

}  // namespace fa::cpu
