#include "cpu/backward/plan.h"

#include <algorithm>
#include <new>

#include "cpu/backward/head.h"
#include "cpu/backward/scores.h"

namespace fa::cpu {

namespace {

Count aligned(Count bytes) {
  return rounded_up(bytes, 64);
}

}  // namespace

BackwardWorkspace BackwardPlan::workspace(const BackwardCall &call, const BackwardMicrokernel &microkernel,
                                          int64_t threads) {
  const Attention &a = *call.attention;
  const Count heads = Count(call.batch) * call.heads_kv;
  BackwardWorkspace workspace;
  workspace.query_tiles = call.max_seqlen_q / microkernel.tile_rows + (call.max_seqlen_q % microkernel.tile_rows != 0);
  workspace.key_tiles = call.max_seqlen_k / key_block + (call.max_seqlen_k % key_block != 0);
  const Count items =
      heads * std::max({workspace.query_tiles, workspace.key_tiles, int64_t{1}}) + score_items(call, microkernel);
  const auto at_most = [](Count count, int64_t limit) {
    return static_cast<int64_t>(std::min<Count>(count, limit).value());
  };
  workspace.workers = std::max<int64_t>(at_most(items, threads), 1);
  workspace.slots = at_most(heads, workspace.workers);
  workspace.sequences_bytes = aligned(Count(call.batch) * sizeof(BackwardSequence));
  workspace.chains_bytes = aligned(Count(call.batch) * sizeof(int64_t));
  workspace.active_bytes = aligned(Count(workspace.slots) * sizeof(BackwardHead *));
  const Count rows = call.kv_batch_idx != nullptr ? Count(call.rows_k) : 0;
  const Count shared = rows * (a.head_dim + a.head_dim_v);
  workspace.slot_bytes = aligned(sizeof(BackwardHead)) + Count(workspace.query_tiles) * microkernel.query_bytes(a) +
                         Count(workspace.key_tiles) * microkernel.key_bytes(a) + aligned(shared * sizeof(float)) +
                         aligned(rows);
  workspace.scratch_bytes = Count(microkernel.scratch_bytes(a)) + score_bytes(call, microkernel);
  return workspace;
}

BackwardPlan::BackwardPlan(const BackwardCall &call, const BackwardMicrokernel &microkernel,
                           const BackwardWorkspace &workspace, char *memory)
    : call_(call),
      microkernel_(microkernel),
      workspace_(workspace),
      sequences_(reinterpret_cast<BackwardSequence *>(memory)),
      chains_(reinterpret_cast<int64_t *>(memory + workspace.sequences_bytes.value())),
      active_heads_(
          reinterpret_cast<BackwardHead **>(memory + (workspace.sequences_bytes + workspace.chains_bytes).value())),
      slots_(memory + (workspace.sequences_bytes + workspace.chains_bytes + workspace.active_bytes).value()),
      scratch_(slots_ + (workspace.slot_bytes * workspace.slots).value()) {
  for (int64_t b = 0; b < call.batch; b++) {
    new (&sequences_[b]) BackwardSequence{resolve_sequence(call, b), -1};
    chains_[chains_count_++] = b;
  }
  if (call.kv_batch_idx != nullptr) link_chains();
  put_long_chains_last();
}

/// Sorting brings entries of one cache row together; a search for the entry before would take quadratic time.
void BackwardPlan::link_chains() {
  const auto row_of = [&](int64_t b) { return sequences_[b].sequence.k_batch; };
  std::sort(chains_, chains_ + chains_count_,
            [&](int64_t a, int64_t b) { return row_of(a) != row_of(b) ? row_of(a) < row_of(b) : a < b; });
  const int64_t entries = chains_count_;
  int64_t before = -1;
  chains_count_ = 0;
  for (int64_t i = 0; i < entries; i++) {
    const int64_t b = chains_[i];
    if (before >= 0 && row_of(before) == row_of(b)) {
      sequences_[before].next = b;
    } else {
      chains_[chains_count_++] = b;
    }
    before = b;
  }
}

/// One head of keys, with the sequences from `first` on that share them.
double BackwardPlan::macs_of(int64_t first) const {
  const Attention &a = *call_.attention;
  double pairs = 0;
  for (int64_t b = first; b >= 0; b = sequences_[b].next)
    pairs += static_cast<double>(sequences_[b].sequence.queries) * static_cast<double>(sequences_[b].sequence.keys);
  return call_.heads_kv == 0
             ? 0
             : pairs * static_cast<double>(call_.heads_q / call_.heads_kv * (3 * a.head_dim + 2 * a.head_dim_v));
}

double BackwardPlan::macs() const {
  double macs = 0;
  for (int64_t i = 0; i < chains_count_; i++) macs += macs_of(chains_[i]) * static_cast<double>(call_.heads_kv);
  return macs;
}

/// Heads of long chains are worth sharing; heads of short ones then still run one per worker.
void BackwardPlan::put_long_chains_last() {
  const double all = macs();
  const auto is_short = [&](int64_t first) {
    return macs_of(first) * 8 * static_cast<double>(workspace_.workers) <= all;
  };
  for (int64_t i = 1; i < chains_count_; i++) even_ = even_ && macs_of(chains_[i]) == macs_of(chains_[i - 1]);
  short_chains_ = std::partition(chains_, chains_ + chains_count_, is_short) - chains_;
}

/// Heads of equal length balance. Among unequal ones, those too short to matter run one per worker.
int64_t BackwardPlan::independent_heads(int64_t workers) const {
  if (workers == 1) return heads();
  return even_ ? heads() - heads() % workers : short_chains_ * call_.heads_kv;
}

}  // namespace fa::cpu
