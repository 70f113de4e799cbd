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

BackwardBounds BackwardPlan::bounds(const BackwardCall &call, const BackwardScheme &scheme, int64_t threads) {
  const Attention &a = *call.attention;
  const Count heads = Count(call.batch) * call.heads_kv;
  BackwardBounds bounds;
  bounds.query_tiles = call.max_seqlen_q / scheme.tile_rows + (call.max_seqlen_q % scheme.tile_rows != 0);
  bounds.key_tiles = call.max_seqlen_k / key_block + (call.max_seqlen_k % key_block != 0);
  const Count items = heads * std::max({bounds.query_tiles, bounds.key_tiles, int64_t{1}}) + score_items(call, scheme);
  const auto at_most = [](Count count, int64_t most) {
    return static_cast<int64_t>(std::min<Count>(count, most).value());
  };
  bounds.workers = std::max<int64_t>(at_most(items, threads), 1);
  bounds.slots = at_most(heads, bounds.workers);
  bounds.sequences_bytes = aligned(Count(call.batch) * sizeof(BackwardSequence));
  bounds.chains_bytes = aligned(Count(call.batch) * sizeof(int64_t));
  bounds.at_work_bytes = aligned(Count(bounds.slots) * sizeof(Head *));
  const Count rows = call.kv_batch_idx != nullptr ? Count(call.rows_k) : 0;
  const Count shared = rows * (a.head_dim + a.head_dim_v);
  bounds.slot_bytes = aligned(sizeof(Head)) + Count(bounds.query_tiles) * scheme.query_bytes(a) +
                      Count(bounds.key_tiles) * scheme.key_bytes(a) + aligned(shared * sizeof(float)) + aligned(rows);
  bounds.scratch_bytes = Count(scheme.scratch_bytes(a)) + score_bytes(call, scheme);
  return bounds;
}

BackwardPlan::BackwardPlan(const BackwardCall &call, const BackwardScheme &scheme, const BackwardBounds &bounds,
                           char *memory)
    : call_(call),
      scheme_(scheme),
      bounds_(bounds),
      sequences_(reinterpret_cast<BackwardSequence *>(memory)),
      chains_(reinterpret_cast<int64_t *>(memory + bounds.sequences_bytes.value())),
      at_work_(reinterpret_cast<Head **>(memory + (bounds.sequences_bytes + bounds.chains_bytes).value())),
      slots_(memory + (bounds.sequences_bytes + bounds.chains_bytes + bounds.at_work_bytes).value()),
      scratch_(slots_ + (bounds.slot_bytes * bounds.slots).value()) {
  for (int64_t b = 0; b < call.batch; b++) {
    new (&sequences_[b]) BackwardSequence{cpu::sequence(call, b), -1};
    chains_[chains_count_++] = b;
  }
  if (call.kv_batch_idx != nullptr) link_chains();
  put_long_chains_last();
}

/// Entries of one row of the cache come together by sorting: looking for the one before would take the square of their
/// number.
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

/// Of one head of keys, and the sequences from `first` on that share them.
double BackwardPlan::work_of(int64_t first) const {
  const Attention &a = *call_.attention;
  double pairs = 0;
  for (int64_t b = first; b >= 0; b = sequences_[b].next)
    pairs += static_cast<double>(sequences_[b].sequence.q_len) * static_cast<double>(sequences_[b].sequence.k_len);
  return call_.heads_kv == 0
             ? 0
             : pairs * static_cast<double>(call_.heads_q / call_.heads_kv * (3 * a.head_dim + 2 * a.head_dim_v));
}

double BackwardPlan::work() const {
  double work = 0;
  for (int64_t i = 0; i < chains_count_; i++) work += work_of(chains_[i]) * static_cast<double>(call_.heads_kv);
  return work;
}

/// Those whose heads are worth sharing: one of them does not take the short ones' heads to the rounds of all workers.
void BackwardPlan::put_long_chains_last() {
  const double all = work();
  const auto is_short = [&](int64_t first) { return work_of(first) * 8 * static_cast<double>(bounds_.workers) <= all; };
  for (int64_t i = 1; i < chains_count_; i++) even_ = even_ && work_of(chains_[i]) == work_of(chains_[i - 1]);
  short_chains_ = std::partition(chains_, chains_ + chains_count_, is_short) - chains_;
}

/// Heads of the same length come out even. Of others, those go to a worker each that are too short to matter.
int64_t BackwardPlan::heads_alone(int64_t workers) const {
  if (workers == 1) return heads();
  return even_ ? heads() - heads() % workers : short_chains_ * call_.heads_kv;
}

}  // namespace fa::cpu
