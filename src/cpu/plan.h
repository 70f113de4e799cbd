// How a call is cut into items of work, and how its workspace is laid out. The cut depends on the problem alone, never
// on the number of threads, so that bits do not either.
#pragma once

#include <atomic>

#include "core/count.h"
#include "cpu/sequences.h"
#include "cpu/tile.h"

namespace fa::cpu {

/// Keys of one split where the engine chooses: long enough to stream, short enough to share out one sequence.
constexpr int64_t split_keys = 1024;

/// The work of one sequence: for every key/value head, tiles of query rows (row r is query r / group, head r % group),
/// each over one or more splits of the keys. An item is one of these, of one head.
struct Job {
  Sequence sequence;
  int64_t first_item;     // (kv head * tiles + tile) * splits + split is counted from here
  int64_t most_heads;     // key/value heads that a worker may take at once: if several, split * kv heads + kv head is
  int64_t first_counter;  // of its (kv head, tile) pairs, when splits are items of their own
  int64_t first_partial;  // floats into the partial results, likewise
  int64_t rows;           // q_len * group
  int64_t tiles, tile_rows;
  int64_t begin, end;  // the keys that some row attends; begin is rounded down to a block's, or a split's, first
  int64_t splits, keys_per_split;
  const Scheme *scheme;
  bool splits_in_item;  // one item processes all splits one after another

  int64_t items_per_tile() const { return splits_in_item ? 1 : splits; }
};

/// What follows from shapes, bounds and num_splits alone, never from strides, and never falls when one of these rises,
/// numbers of heads among them.
struct Bounds {
  int64_t workers;
  int64_t tile_rows;     // of the largest tile
  size_t scratch_bytes;  // of one worker
  Count jobs_bytes, counters_bytes, partials_bytes;

  Count total() const { return jobs_bytes + counters_bytes + partials_bytes + Count(workers) * scratch_bytes; }
};

class Plan {
 public:
  static Bounds bounds(const ForwardCall &problem, const Kernels &kernels, int64_t threads);

  /// Lays the plan of a problem that check_sequences has passed into memory of bounds.total() bytes, which fit.
  Plan(const ForwardCall &problem, const Kernels &kernels, const Bounds &bounds, char *memory);

  int64_t items() const { return items_; }
  const Job &job(int64_t sequence) const { return jobs_[sequence]; }
  const Job &job_of(int64_t item) const;
  std::atomic<int32_t> &counter(int64_t i) const { return counters_[i]; }
  float *partials() const { return partials_; }
  int64_t tile_rows() const { return tile_rows_; }
  char *scratch(int64_t worker) const { return scratch_ + worker * scratch_bytes_; }

  /// Multiplications of the two products, roughly: whether threads are worth waking.
  double work() const { return work_; }

 private:
  Job *jobs_;
  int64_t job_count_;
  int64_t items_ = 0;
  std::atomic<int32_t> *counters_;
  float *partials_;
  char *scratch_;
  int64_t scratch_bytes_, tile_rows_;
  double work_ = 0;
};

}  // namespace fa::cpu
