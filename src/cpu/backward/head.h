// The backward pass of one head of keys: the query heads of its group, one after another, and the sequences that share
// it (kv_batch_idx). Its tiles are in a slot of the workspace. The pass is a list of phases, each of items that several
// workers may process at once.
#pragma once

#include "cpu/backward/pair_schedule.h"
#include "cpu/backward/plan.h"

namespace fa::cpu {

class BackwardHead {
 public:
  /// Head `index` of the plan, in its first phase.
  BackwardHead(const BackwardPlan &plan, int64_t index, char *slot);

  /// A head that is done.
  explicit BackwardHead(const BackwardPlan &plan) : plan_(plan) {}

  bool done() const { return phase_ == Phase::none; }

  /// All phases, by one worker. It stops between two pairs of tiles when stop() says so.
  template <class Stop>
  void run(void *scratch, const Stop &stop);

  /// Multiply-accumulates that are left of the current sequence, roughly.
  double remaining_macs() const;

  /// The current phase: every item is run once before advance(). An item past the last does nothing.
  int64_t items() const;
  void run_item(int64_t item, void *scratch) const;
  void advance();

  /// Sets whether an item of Phase::process_pairs is one step of one supertile of keys, or all steps of a group of
  /// supertiles, which then hits the caches. Has no effect in the middle of a group.
  void set_granularity(bool fine);

 private:
  enum class Phase { none, stage_keys, stage_queries, process_pairs, store_queries, store_keys, store_shared };

  /// The next supertile of keys to process in a round of the schedule; those before it are done.
  struct Cursor {
    int64_t group = 0, step = 0, supertile = 0;  // supertile: within the group

    bool at_group_start() const { return step == 0 && supertile == 0; }
  };

  int64_t key_tiles() const;
  int64_t query_tiles() const;
  int64_t group_size() const { return plan_.call().heads_q / plan_.call().heads_kv; }
  PairSchedule pair_schedule() const;

  /// Tiles of a supertile. A supertile of keys and one of queries are processed together, so that their pairs share the
  /// caches. The number follows from lengths alone.
  int64_t supertile() const;

  void stage_keys(int64_t tile) const;
  void stage_queries(int64_t tile, void *scratch) const;
  void process_supertile_pair(int64_t step, int64_t key_supertile, void *scratch) const;
  void process_supertile(int64_t i, void *scratch) const;
  void process_group(int64_t key_group, void *scratch) const;
  template <class Stop>
  bool process_alone(void *scratch, const Stop &stop);
  void next_round();
  void next_sequence();
  void store_queries(int64_t tile, void *scratch) const;
  void store_shared() const;

  const Sequence &sequence() const { return plan_.sequence(sequence_).sequence; }
  BackwardQueryTile &queries(int64_t tile) const;
  KeyTile &keys(int64_t tile) const;
  bool attends(int64_t first_query_tile, int64_t query_tiles, int64_t first_key_tile, int64_t key_tiles) const;
  bool shared() const { return plan_.sequence(first_).next >= 0; }
  void clear_shared() const;
  bool group_attends(int64_t key_group) const;
  template <class F>
  void each_shared_row(const F &f) const;

  const BackwardPlan &plan_;
  int64_t head_ = 0, first_ = 0;
  char *query_memory_ = nullptr, *key_memory_ = nullptr;
  float *shared_dk_ = nullptr, *shared_dv_ = nullptr;  // [rows of k][dim]
  bool *shared_seen_ = nullptr;                        // [rows of k]

  Phase phase_ = Phase::none;
  int64_t sequence_ = 0, group_head_ = 0;  // of the group's query heads
  int64_t round_ = 0;                      // of the pair schedule
  Cursor cursor_;                          // where one worker stopped in the round
  int64_t step_ = 0;                       // after that, of all groups at once
  bool fine_ = false;
};

/// By one worker, group by group: all steps of two groups find their tiles in the caches.
template <class Stop>
bool BackwardHead::process_alone(void *scratch, const Stop &stop) {
  const PairSchedule schedule = pair_schedule();
  auto &[group, step, supertile] = cursor_;
  for (; group < schedule.key_groups(); group++, step = 0) {
    if (cursor_.at_group_start() && !group_attends(group)) continue;
    for (; step < schedule.steps(); step++, supertile = 0)
      for (; supertile < schedule.group(); supertile++) {
        if (stop()) return false;
        process_supertile_pair(step, group * schedule.group() + supertile, scratch);
      }
  }
  return true;
}

template <class Stop>
void BackwardHead::run(void *scratch, const Stop &stop) {
  for (; !done(); advance()) {
    if (phase_ != Phase::process_pairs) {
      for (int64_t i = 0; i < items(); i++) run_item(i, scratch);
    } else if (!process_alone(scratch, stop)) {
      return;
    }
  }
}

/// Describes queries of a head from `first` on, and keys; the caller stages them.
BackwardQueryTile &describe_queries(void *memory, const BackwardPlan &plan, int64_t b, int64_t head, int64_t first);
KeyTile &describe_keys(void *memory, const BackwardPlan &plan, int64_t b, int64_t head_kv, int64_t first);

}  // namespace fa::cpu
