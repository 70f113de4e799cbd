#include "cpu/backward/backward.h"

#include <algorithm>
#include <new>

#include "cpu/backward/head.h"
#include "cpu/backward/scores.h"

namespace fa::cpu {

namespace {

/// A head from end to end, by one worker.
void run_alone(const BackwardPlan &plan, int64_t index, int64_t worker) {
  const int64_t group = plan.call().heads_q / plan.call().heads_kv;
  char *slot = plan.slot(worker), *scratch = plan.scratch(worker);
  Head &head = *new (slot) Head(plan, index, slot);
  for (; !head.done(); head.next_sequence()) {
    for (int64_t i = 0; i < head.key_tiles(); i++) head.stage_keys(i);
    for (int64_t member = 0; member < group; member++) {
      for (int64_t i = 0; i < head.query_tiles(); i++) head.stage_queries(member, i, scratch);
      const Tournament all = head.tournament();
      for (int64_t round = 0; round < all.rounds(); round++)
        for (int64_t i = 0; i < all.key_groups(); i++) head.meet_group(round, i, scratch);
      for (int64_t i = 0; i < head.query_tiles(); i++) head.store_queries(i, scratch);
    }
    for (int64_t i = 0; i < head.key_tiles(); i++) head.store_keys(i);
  }
  head.store_shared();
}

/// Heads first .. first + count - 1, one in each slot, by all workers together: the same steps in rounds.
class Together {
 public:
  Together(const BackwardPlan &plan, const Team &team, int64_t first, int64_t count)
      : plan_(plan), team_(team), count_(count) {
    for (int64_t i = 0; i < count; i++) new (plan.slot(i)) Head(plan, first + i, plan.slot(i));
  }

  void run() const {
    const int64_t group = plan_.call().heads_q / plan_.call().heads_kv;
    while (!done()) {
      const int64_t key_tiles = most(&Head::key_tiles), query_tiles = most(&Head::query_tiles);
      const int64_t rounds = most([](const Tournament &all) { return all.rounds(); });
      const int64_t turns = most([](const Tournament &all) { return all.turns(); });
      const int64_t groups = most([](const Tournament &all) { return all.key_groups(); });
      each(key_tiles, [](const Head &head, int64_t i, char *) { head.stage_keys(i); });
      for (int64_t member = 0; member < group; member++) {
        each(query_tiles, [=](const Head &head, int64_t i, char *scratch) { head.stage_queries(member, i, scratch); });
        for (int64_t round = 0; round < rounds; round++) meet(round, turns, groups, key_tiles);
        each(query_tiles, [](const Head &head, int64_t i, char *scratch) { head.store_queries(i, scratch); });
      }
      each(key_tiles, [](const Head &head, int64_t i, char *) { head.store_keys(i); });
      for (int64_t i = 0; i < count_; i++)
        if (!head(i).done()) head(i).next_sequence();
    }
    each(1, [](const Head &head, int64_t, char *) { head.store_shared(); });
  }

 private:
  Head &head(int64_t i) const { return *std::launder(reinterpret_cast<Head *>(plan_.slot(i))); }

  bool done() const {
    for (int64_t i = 0; i < count_; i++)
      if (!head(i).done()) return false;
    return true;
  }

  int64_t most(int64_t (Head::*tiles)() const) const {
    int64_t most = 0;
    for (int64_t i = 0; i < count_; i++) most = std::max(most, (head(i).*tiles)());
    return most;
  }

  template <class Of>
  int64_t most(const Of &of) const {
    int64_t most = 0;
    for (int64_t i = 0; i < count_; i++) most = std::max(most, of(head(i).tournament()));
    return most;
  }

  /// Of a causal mask's groups only half may have anything to do.
  void meet(int64_t round, int64_t turns, int64_t groups, int64_t key_tiles) const {
    if (groups * count_ % (2 * team_.workers()) == 0)
      return each(groups, [=](const Head &head, int64_t i, char *scratch) { head.meet_group(round, i, scratch); });
    for (int64_t turn = 0; turn < turns; turn++)
      each(key_tiles, [=](const Head &head, int64_t i, char *scratch) { head.meet(round, turn, i, scratch); });
  }

  template <class Step>
  void each(int64_t tiles, const Step &step) const {
    team_.each(tiles * count_,
               [&](int64_t worker, int64_t item) { step(head(item % count_), item / count_, plan_.scratch(worker)); });
  }

  const BackwardPlan &plan_;
  const Team &team_;
  int64_t count_;
};

}  // namespace

void run_backward(const BackwardPlan &plan, const Team &team) {
  const Backward &call = plan.call();
  const bool heads_wanted = call.dq || call.dk || call.dv;
  const int64_t heads = heads_wanted ? plan.heads() : 0;
  const int64_t alone = heads_wanted ? plan.heads_alone(team.workers()) : 0;
  const int64_t scores = static_cast<int64_t>(score_items(call, plan.scheme()).value());
  team.each(scores, [&](int64_t worker, int64_t item) { compute_scores(plan, item, plan.scratch(worker)); });
  team.each(alone, [&](int64_t worker, int64_t head) { run_alone(plan, head, worker); });
  for (int64_t first = alone; first < heads; first += plan.bounds().slots)
    Together(plan, team, first, std::min(plan.bounds().slots, heads - first)).run();
}

}  // namespace fa::cpu
