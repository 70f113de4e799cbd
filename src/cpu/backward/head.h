// One head of keys, the heads of queries that attend it, one after another, and the sequences that share it: its tiles,
// in a slot of the workspace, and how far the work on them has come. The work is a list of steps, each of items that
// several workers may take at once.
#pragma once

#include "cpu/backward/plan.h"
#include "cpu/backward/rounds.h"

namespace fa::cpu {

class Head {
 public:
  /// Head `index` of the plan, at its first step.
  Head(const BackwardPlan &plan, int64_t index, char *slot);

  /// One that is done.
  explicit Head(const BackwardPlan &plan) : plan_(plan) {}

  bool done() const { return step_ == Step::none; }

  /// The steps until it is done, by one worker. It stops between two pairs of tiles when asked to.
  template <class Stop>
  void run(void *scratch, const Stop &stop);

  /// Multiplications of the products that are left of the present sequence, roughly.
  double left() const;

  /// The present step, of which every item is run once before the next one: none where there is no such item.
  int64_t items() const;
  void run_item(int64_t item, void *scratch) const;
  void advance();

  /// Of a step in which tiles meet: whether its items are a turn of a side of keys each, or all turns of a group of
  /// sides, which find each other in the caches. Has no effect in the middle of a group.
  void cut(bool finely);

 private:
  enum class Step { none, stage_keys, stage_queries, meet, store_queries, store_keys, store_shared };

  /// A side of keys that is next to meet its partner, of the tournament's round; sides before it have.
  struct Place {
    int64_t group = 0, turn = 0, side = 0;  // side: of the group

    bool between_groups() const { return turn == 0 && side == 0; }
  };

  int64_t key_tiles() const;
  int64_t query_tiles() const;
  int64_t members() const { return plan_.call().heads_q / plan_.call().heads_kv; }
  Tournament tournament() const;

  /// The side of a square of tile pairs that are processed together, so that they share the caches. It follows
  /// from lengths alone.
  int64_t side() const;

  void stage_keys(int64_t tile) const;
  void stage_queries(int64_t tile, void *scratch) const;
  void meet(int64_t turn, int64_t key_side, void *scratch) const;
  void meet_finely(int64_t i, void *scratch) const;
  void meet_group(int64_t key_group, void *scratch) const;
  template <class Stop>
  bool meet_alone(void *scratch, const Stop &stop);
  void next_round();
  void next_sequence();
  void store_queries(int64_t tile, void *scratch) const;
  void store_shared() const;

  const Sequence &sequence() const { return plan_.sequence(sequence_).sequence; }
  QueryTile &queries(int64_t tile) const;
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

  Step step_ = Step::none;
  int64_t sequence_ = 0, member_ = 0;  // member: of the heads of queries
  int64_t round_ = 0;                  // of the tournament
  Place begun_;                        // what one worker has left of the round
  int64_t turn_ = 0;                   // from there on, of all groups at once
  bool finely_ = false;
};

/// By one worker, group for group: what two groups bring into the caches serves all turns of theirs.
template <class Stop>
bool Head::meet_alone(void *scratch, const Stop &stop) {
  const Tournament all = tournament();
  auto &[group, turn, side] = begun_;
  for (; group < all.key_groups(); group++, turn = 0) {
    if (begun_.between_groups() && !group_attends(group)) continue;
    for (; turn < all.turns(); turn++, side = 0)
      for (; side < all.group(); side++) {
        if (stop()) return false;
        meet(turn, group * all.group() + side, scratch);
      }
  }
  return true;
}

template <class Stop>
void Head::run(void *scratch, const Stop &stop) {
  for (; !done(); advance()) {
    if (step_ != Step::meet) {
      for (int64_t i = 0; i < items(); i++) run_item(i, scratch);
    } else if (!meet_alone(scratch, stop)) {
      return;
    }
  }
}

/// Describes queries of a head from `first` on, and keys; the caller stages them.
QueryTile &describe_queries(void *memory, const BackwardPlan &plan, int64_t b, int64_t head, int64_t first);
KeyTile &describe_keys(void *memory, const BackwardPlan &plan, int64_t b, int64_t head_kv, int64_t first);

}  // namespace fa::cpu
