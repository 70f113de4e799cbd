// Partition of a forward call into work items, and the layout of its workspace. Splits of the keys depend on the call
// alone, never on the number of threads, so that results do not either: a row's bits do not depend on its tile.
#pragma once

#include <atomic>

#include "core/count.h"
#include "cpu/sequences.h"
#include "cpu/tile.h"

namespace fa::cpu {

/// Keys of one split where the engine chooses: long enough to stream, short enough to spread one sequence over threads.
constexpr int64_t split_keys = 1024;

/// The work of one sequence: for every key/value head, tiles of query rows (row r is query r / group, head r % group),
/// each over one or more splits of the keys (split-KV). An item is one split of one tile of one head.
struct SequencePlan {
  Sequence sequence;
  int64_t first_item;     // (kv head * tiles + tile) * splits + split counts from here
  int64_t max_heads;      // key/value heads that a worker may take at once: if several, split * kv heads + kv head is
  int64_t first_counter;  // of its (kv head, tile) pairs, when splits are separate items
  int64_t first_partial;  // floats into the partial results, likewise
  int64_t rows;           // queries * group
  int64_t tiles, tile_rows;
  int64_t begin, end;  // the keys that some row attends; begin is rounded down to a block's, or a split's, first
  int64_t splits, keys_per_split;
  const Microkernel *microkernel;
  bool splits_in_item;  // one item processes all splits one after another

  int64_t items_per_tile() const { return splits_in_item ? 1 : splits; }
};

/// The workspace of a call. Sizes follow from shapes, bounds and num_splits alone, never from strides, and are
/// monotonic in each of them, head counts included.
struct ForwardWorkspace {
  Count all_rows;  // of queries, over all heads
  int64_t threads;
  int64_t workers;
  int64_t tile_rows;     // of the largest tile
  size_t scratch_bytes;  // of one worker
  Count sequences_bytes, counters_bytes, partials_bytes;

  Count total() const { return sequences_bytes + counters_bytes + partials_bytes + Count(workers) * scratch_bytes; }
};

/// Rows of a worker's partial results: of the total, of the split that is merged into it, of one with finite values
/// only, and of rows that the last microkernel computes again.
int64_t rows_of_results(const IsaKernels &kernels, int64_t tile_rows);

class ForwardPlan {
 public:
  static ForwardWorkspace workspace(const ForwardCall &call, const IsaKernels &kernels, int64_t threads);

  /// Lays the plan of a call that check_sequences has passed into memory of workspace.total() bytes.
  ForwardPlan(const ForwardCall &call, const IsaKernels &kernels, const ForwardWorkspace &workspace, char *memory);

  int64_t items() const { return items_; }
  const SequencePlan &sequence(int64_t b) const { return sequences_[b]; }
  const SequencePlan &sequence_of(int64_t item) const;
  std::atomic<int32_t> &counter(int64_t i) const { return counters_[i]; }
  float *partials() const { return partials_; }
  int64_t tile_rows() const { return tile_rows_; }
  char *scratch(int64_t worker) const { return scratch_ + worker * scratch_bytes_; }

  /// Multiply-accumulates of the two products, roughly: they decide whether threads are worth waking.
  double macs() const { return macs_; }

 private:
  SequencePlan *sequences_;
  int64_t sequence_count_;
  int64_t items_ = 0;
  std::atomic<int32_t> *counters_;
  float *partials_;
  char *scratch_;
  int64_t scratch_bytes_, tile_rows_;
  double macs_ = 0;
};

}  // namespace fa::cpu
