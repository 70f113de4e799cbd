// One head of keys, the heads of queries that attend it in turn, and the sequences that share it: its tiles, in a slot
// of the workspace. Steps of one kind may be taken by several workers at once.
#pragma once

#include "cpu/backward/plan.h"
#include "cpu/backward/rounds.h"

namespace fa::cpu {

class Head {
 public:
  /// Head `index` of the plan, at its first sequence.
  Head(const BackwardPlan &plan, int64_t index, char *slot);

  bool done() const { return sequence_ < 0; }
  void next_sequence() { sequence_ = plan_.sequence(sequence_).next; }

  int64_t key_tiles() const;
  int64_t query_tiles() const;
  Tournament tournament() const;

  /// Tiles that meet in a square of so many by so many: what one leaves in the caches the next finds there. It follows
  /// from lengths alone.
  int64_t side() const;

  /// A step does nothing where there is no such tile, or side. Member: which of the group's heads of queries.
  void stage_keys(int64_t tile) const;
  void stage_queries(int64_t member, int64_t tile, void *scratch) const;
  void meet(int64_t round, int64_t turn, int64_t key_side, void *scratch) const;
  /// All turns of a round, of one group of sides. Each tile meets its partners in the same order.
  void meet_group(int64_t round, int64_t key_group, void *scratch) const;
  void store_queries(int64_t tile, void *scratch) const;
  void store_keys(int64_t tile) const;

  /// Where several sequences have shared the keys: stores the sum of their gradients.
  void store_shared() const;

 private:
  const Sequence &sequence() const { return plan_.sequence(sequence_).sequence; }
  QueryTile &queries(int64_t tile) const;
  KeyTile &keys(int64_t tile) const;
  bool attends(int64_t first_query_tile, int64_t query_tiles, int64_t first_key_tile, int64_t key_tiles) const;
  bool shared() const { return plan_.sequence(first_).next >= 0; }
  void clear_shared() const;
  template <class F>
  void each_shared_row(const F &f) const;

  const BackwardPlan &plan_;
  int64_t head_, first_, sequence_;
  char *query_memory_, *key_memory_;
  float *shared_dk_, *shared_dv_;  // [rows of k][dim]
  bool *shared_seen_;              // [rows of k]
};

/// Describes queries of a head from `first` on, and keys; the caller stages them.
QueryTile &describe_queries(void *memory, const BackwardPlan &plan, int64_t b, int64_t head, int64_t first);
KeyTile &describe_keys(void *memory, const BackwardPlan &plan, int64_t b, int64_t head_kv, int64_t first);

}  // namespace fa::cpu
