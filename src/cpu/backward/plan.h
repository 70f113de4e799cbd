// Partition of a backward call into heads and tiles, and the layout of its workspace.
#pragma once

#include "core/count.h"
#include "cpu/backward/microkernel.h"
#include "cpu/sequences.h"
#include "cpu/team.h"

namespace fa::cpu {

class BackwardHead;

struct BackwardSequence {
  Sequence sequence;
  int64_t next;  // the next sequence with the same keys, or -1: their gradients are summed in this order
};

/// The workspace of a call. Sizes follow from shapes, bounds and the presence of tensors alone, and are monotonic.
struct BackwardWorkspace {
  int64_t workers = 0, slots = 0;
  int64_t query_tiles = 0, key_tiles = 0;  // of a head at most
  Count sequences_bytes = 0, chains_bytes = 0, active_bytes = 0;
  Count slot_bytes = 0, scratch_bytes = 0;

  Count queues_bytes() const { return Count(workers) * sizeof(WorkStealingQueue); }
  Count total() const {
    return sequences_bytes + chains_bytes + active_bytes + slot_bytes * slots + scratch_bytes * workers +
           queues_bytes();
  }
};

/// The key heads of each chain of sequences that share their keys. Each head has a slot of the workspace.
class BackwardPlan {
 public:
  static BackwardWorkspace workspace(const BackwardCall &call, const BackwardMicrokernel &microkernel, int64_t threads);

  /// Lays the plan of a call that check_sequences has passed into memory of workspace.total() bytes.
  BackwardPlan(const BackwardCall &call, const BackwardMicrokernel &microkernel, const BackwardWorkspace &workspace,
               char *memory);

  const BackwardCall &call() const { return call_; }
  const BackwardMicrokernel &microkernel() const { return microkernel_; }
  const BackwardWorkspace &workspace() const { return workspace_; }
  const BackwardSequence &sequence(int64_t b) const { return sequences_[b]; }
  int64_t heads() const { return chains_count_ * call_.heads_kv; }
  int64_t first_sequence(int64_t head) const { return chains_[head / call_.heads_kv]; }
  char *slot(int64_t i) const { return slots_ + i * static_cast<int64_t>(workspace_.slot_bytes.value()); }
  char *scratch(int64_t worker) const {
    return scratch_ + worker * static_cast<int64_t>(workspace_.scratch_bytes.value());
  }
  BackwardHead **active_heads() const { return active_heads_; }  // room for the heads of all slots
  WorkStealingQueue *queues() const { return reinterpret_cast<WorkStealingQueue *>(scratch(workspace_.workers)); }

  /// The number of heads that one worker each processes: as many as balance. All workers share the others.
  int64_t independent_heads(int64_t workers) const;

  /// Multiply-accumulates of the products, roughly: they decide whether threads are worth waking.
  double macs() const;

 private:
  void link_chains();
  void put_long_chains_last();
  double macs_of(int64_t first) const;

  const BackwardCall &call_;
  const BackwardMicrokernel &microkernel_;
  BackwardWorkspace workspace_;
  BackwardSequence *sequences_;
  int64_t *chains_;  // the first sequence of each
  int64_t chains_count_ = 0, short_chains_ = 0;
  bool even_ = true;  // all chains have as much work
  BackwardHead **active_heads_;
  char *slots_, *scratch_;
};

}  // namespace fa::cpu
