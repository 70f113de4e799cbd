// How a backward call is cut into heads and tiles, and how its workspace is laid out.
#pragma once

#include "core/count.h"
#include "cpu/backward/scheme.h"
#include "cpu/sequences.h"
#include "cpu/team.h"

namespace fa::cpu {

class Head;

struct BackwardSequence {
  Sequence sequence;
  int64_t next;  // the next sequence with the same keys, or -1: their gradients are summed in this order
};

/// What follows from shapes, bounds and which tensors are given alone, and never falls when one of these rises.
struct BackwardBounds {
  int64_t workers = 0, slots = 0;
  int64_t query_tiles = 0, key_tiles = 0;  // of a head at most
  Count sequences_bytes = 0, chains_bytes = 0, at_work_bytes = 0;
  Count slot_bytes = 0, scratch_bytes = 0;

  Count shares_bytes() const { return Count(workers) * sizeof(Share); }
  Count total() const {
    return sequences_bytes + chains_bytes + at_work_bytes + slot_bytes * slots + scratch_bytes * workers +
           shares_bytes();
  }
};

/// Heads of keys: those of each chain of sequences that share their keys. Each is worked on in a slot of its own.
class BackwardPlan {
 public:
  static BackwardBounds bounds(const BackwardCall &call, const BackwardScheme &scheme, int64_t threads);

  /// Lays the plan of a call that check_sequences has passed into memory of bounds.total() bytes, which fit.
  BackwardPlan(const BackwardCall &call, const BackwardScheme &scheme, const BackwardBounds &bounds, char *memory);

  const BackwardCall &call() const { return call_; }
  const BackwardScheme &scheme() const { return scheme_; }
  const BackwardBounds &bounds() const { return bounds_; }
  const BackwardSequence &sequence(int64_t b) const { return sequences_[b]; }
  int64_t heads() const { return chains_count_ * call_.heads_kv; }
  int64_t first_sequence(int64_t head) const { return chains_[head / call_.heads_kv]; }
  char *slot(int64_t i) const { return slots_ + i * static_cast<int64_t>(bounds_.slot_bytes.value()); }
  char *scratch(int64_t worker) const {
    return scratch_ + worker * static_cast<int64_t>(bounds_.scratch_bytes.value());
  }
  Head **at_work() const { return at_work_; }  // room for the heads of all slots
  Share *shares() const { return reinterpret_cast<Share *>(scratch(bounds_.workers)); }

  /// How many heads a worker each does alone: as many as come out even. The workers share the work on the others.
  int64_t heads_alone(int64_t workers) const;

  /// Multiplications of the products, roughly: whether threads are worth waking.
  double work() const;

 private:
  void link_chains();
  void put_long_chains_last();
  double work_of(int64_t first) const;

  const BackwardCall &call_;
  const BackwardScheme &scheme_;
  BackwardBounds bounds_;
  BackwardSequence *sequences_;
  int64_t *chains_;  // the first sequence of each
  int64_t chains_count_ = 0, short_chains_ = 0;
  bool even_ = true;  // all chains have as much work
  Head **at_work_;
  char *slots_, *scratch_;
};

}  // namespace fa::cpu
