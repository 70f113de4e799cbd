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

BackwardBounds BackwardPlan::bounds(const Backward &call, const BackwardScheme &scheme, int64_t threads) {
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
  const Count shared = call.kv_batch_idx != nullptr ? Count(call.rows_k) * (a.head_dim + a.head_dim_v) : 0;
  bounds.slot_bytes = aligned(sizeof(Head)) + Count(bounds.query_tiles) * scheme.query_bytes(a) +
                      Count(bounds.key_tiles) * scheme.key_bytes(a) + aligned(shared * sizeof(float));
  bounds.scratch_bytes = Count(scheme.scratch_bytes(a)) + score_bytes(call, scheme);
  return bounds;
}

BackwardPlan::BackwardPlan(const Backward &call, const BackwardScheme &scheme, const BackwardBounds &bounds,
                           char *memory)
    : call_(call),
      scheme_(scheme),
      bounds_(bounds),
      sequences_(reinterpret_cast<BackwardSequence *>(memory)),
      chains_(reinterpret_cast<int64_t *>(memory + bounds.sequences_bytes.value())),
      slots_(memory + (bounds.sequences_bytes + bounds.chains_bytes).value()),
      scratch_(slots_ + (bounds.slot_bytes * bounds.slots).value()) {
  for (int64_t b = 0; b < call.batch; b++) {
    new (&sequences_[b]) BackwardSequence{cpu::sequence(call, b), -1};
    int64_t before = call.kv_batch_idx != nullptr ? b - 1 : -1;
    while (before >= 0 && sequences_[before].sequence.k_batch != sequences_[b].sequence.k_batch) before--;
    if (before < 0) {
      chains_[chains_count_++] = b;
    } else {
      sequences_[before].next = b;
    }
  }
}

double BackwardPlan::work_of(int64_t head) const {
  const Attention &a = *call_.attention;
  double pairs = 0;
  for (int64_t b = first_sequence(head); b >= 0; b = sequences_[b].next)
    pairs += static_cast<double>(sequences_[b].sequence.q_len) * static_cast<double>(sequences_[b].sequence.k_len);
  return pairs * static_cast<double>(call_.heads_q / call_.heads_kv * (3 * a.head_dim + 2 * a.head_dim_v));
}

double BackwardPlan::work() const {
  double work = 0;
  for (int64_t head = 0; head < heads(); head += call_.heads_kv)
    work += work_of(head) * static_cast<double>(call_.heads_kv);
  return work;
}

/// Heads of the same length come out even. Of others, those go to a worker each that are too short to matter.
int64_t BackwardPlan::heads_alone(int64_t workers) const {
  if (workers == 1 || heads() == 0) return heads();
  double longest = 0;
  bool even = true;
  for (int64_t head = 0; head < heads(); head += call_.heads_kv) {
    even = even && (head == 0 || work_of(head) == longest);
    longest = std::max(longest, work_of(head));
  }
  if (!even && longest * 8 * static_cast<double>(workers) > work()) return 0;
  return heads() - (even ? heads() % workers : 0);
}

}  // namespace fa::cpu
