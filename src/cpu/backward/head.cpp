#include "cpu/backward/head.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <utility>

#include "cpu/element.h"
#include "cpu/rows.h"

namespace fa::cpu {

namespace {

int64_t tiles_of(int64_t rows, int64_t tile_rows) {
  return (rows + tile_rows - 1) / tile_rows;
}

/// The rows of dk or dv that belong to a sequence's keys.
CacheRows gradient_rows(const BackwardCall &call, const View &gradient, const Sequence &s, int64_t head) {
  return gradient ? cache_rows(call, gradient, s, head) : CacheRows();
}

CacheRows shared_rows(const View &gradient, float *rows, const Sequence &s, int64_t dim) {
  if (!gradient) return {};
  const int64_t bytes = dim * static_cast<int64_t>(sizeof(float));
  return {reinterpret_cast<char *>(rows + s.k_first * dim), bytes, sizeof(float), 0, 0};
}

}  // namespace

BackwardQueryTile &describe_queries(void *memory, const BackwardPlan &plan, int64_t b, int64_t head, int64_t first) {
  const BackwardCall &call = plan.call();
  const Sequence &s = plan.sequence(b).sequence;
  BackwardQueryTile &tile = *new (memory) BackwardQueryTile;
  describe_inputs(tile, call);
  tile.out_elem = call.out.stride[3];
  tile.dout_elem = call.dout.stride[3];
  tile.dout_dtype = call.dout.dtype;
  tile.dq_elem = call.dq.stride[3];
  tile.dq_dtype = call.dq.dtype;
  tile.head_rows = s.queries * (call.heads_q / call.heads_kv);
  tile.delta_given = static_cast<bool>(call.delta);
  tile.add_dq = call.adds_to(FA_ACCUMULATE_DQ);
  tile.rows = static_cast<int>(std::min<int64_t>(plan.microkernel().tile_rows, s.queries - first));
  for (int i = 0; i < tile.rows; i++) {
    const int64_t query = first + i, row = s.q_first + query;
    describe_row(tile.row[i], call, s, b, query, head, s.attended(*call.attention, query));
    BackwardRow &g = tile.gradient[i];
    g.lse = *call.lse.at<const float>(s.q_batch, head, row);
    const bool empty = g.lse == -std::numeric_limits<float>::infinity();
    const float dlse = call.dlse ? *call.dlse.at<const float>(s.q_batch, head, row) : 0;
    g.dout = empty ? nullptr : call.dout.at(s.q_batch, row, head);
    g.out = call.out ? call.out.at(s.q_batch, row, head) : nullptr;
    g.dq = call.dq ? call.dq.at(s.q_batch, row, head) : nullptr;
    g.delta = call.delta ? *call.delta.at<const float>(s.q_batch, head, row) - dlse : dlse;
  }
  return tile;
}

KeyTile &describe_keys(void *memory, const BackwardPlan &plan, int64_t b, int64_t head, int64_t first) {
  const BackwardCall &call = plan.call();
  const Sequence &s = plan.sequence(b).sequence;
  KeyTile &tile = *new (memory) KeyTile;
  tile.attention = call.attention;
  tile.keys = {cache_rows(call, call.k, s, head), cache_rows(call, call.v, s, head), {}, {}, {}};
  tile.first = first;
  tile.n = static_cast<int>(std::min<int64_t>(key_block, s.keys - first));
  tile.dk = gradient_rows(call, call.dk, s, head);
  tile.dv = gradient_rows(call, call.dv, s, head);
  tile.dk_dtype = call.dk.dtype;
  tile.dv_dtype = call.dv.dtype;
  tile.add_dk = call.adds_to(FA_ACCUMULATE_DK);
  tile.add_dv = call.adds_to(FA_ACCUMULATE_DV);
  return tile;
}

BackwardHead::BackwardHead(const BackwardPlan &plan, int64_t index, char *slot)
    : plan_(plan),
      head_(index % plan.call().heads_kv),
      first_(plan.first_sequence(index)),
      phase_(Phase::stage_keys),
      sequence_(first_) {
  const Attention &a = *plan.call().attention;
  const BackwardWorkspace &workspace = plan.workspace();
  query_memory_ = slot + (sizeof(BackwardHead) + 63) / 64 * 64;
  key_memory_ = query_memory_ + workspace.query_tiles * static_cast<int64_t>(plan.microkernel().query_bytes(a));
  shared_dk_ = reinterpret_cast<float *>(key_memory_ +
                                         workspace.key_tiles * static_cast<int64_t>(plan.microkernel().key_bytes(a)));
  shared_dv_ = shared_dk_ + plan.call().rows_k * a.head_dim;
  shared_seen_ = reinterpret_cast<bool *>(shared_dv_ + plan.call().rows_k * a.head_dim_v);
  if (shared()) clear_shared();
}

int64_t BackwardHead::key_tiles() const {
  return tiles_of(sequence().keys, key_block);
}

int64_t BackwardHead::query_tiles() const {
  return tiles_of(sequence().queries, plan_.microkernel().tile_rows);
}

BackwardQueryTile &BackwardHead::queries(int64_t tile) const {
  const auto bytes = static_cast<int64_t>(plan_.microkernel().query_bytes(*plan_.call().attention));
  return *reinterpret_cast<BackwardQueryTile *>(query_memory_ + tile * bytes);
}

KeyTile &BackwardHead::keys(int64_t tile) const {
  const auto bytes = static_cast<int64_t>(plan_.microkernel().key_bytes(*plan_.call().attention));
  return *reinterpret_cast<KeyTile *>(key_memory_ + tile * bytes);
}

int64_t BackwardHead::items() const {
  switch (phase_) {
    case Phase::none:
      return 0;
    case Phase::stage_keys:
    case Phase::store_keys:
      return key_tiles();
    case Phase::stage_queries:
    case Phase::store_queries:
      return query_tiles();
    case Phase::store_shared:
      return shared() ? 1 : 0;
    case Phase::process_pairs:
      break;
  }
  const PairSchedule schedule = pair_schedule();
  return fine_ ? tiles_of(key_tiles(), supertile()) - cursor_.group * schedule.group()
               : schedule.key_groups() - cursor_.group;
}

void BackwardHead::run_item(int64_t i, void *scratch) const {
  if (i >= items()) return;
  switch (phase_) {
    case Phase::none:
      return;
    case Phase::stage_keys:
      return stage_keys(i);
    case Phase::stage_queries:
      return stage_queries(i, scratch);
    case Phase::process_pairs:
      return fine_ ? process_supertile(i, scratch) : process_group(cursor_.group + i, scratch);
    case Phase::store_queries:
      return store_queries(i, scratch);
    case Phase::store_keys:
      return plan_.microkernel().store_keys(keys(i));
    case Phase::store_shared:
      return store_shared();
  }
}

void BackwardHead::set_granularity(bool fine) {
  if (step_ == 0) fine_ = fine || !cursor_.at_group_start();
}

void BackwardHead::advance() {
  switch (phase_) {
    case Phase::none:
      return;
    case Phase::stage_keys:
      group_head_ = 0;
      phase_ = group_size() > 0 ? Phase::stage_queries : Phase::store_keys;
      return;
    case Phase::stage_queries:
      round_ = -1;
      phase_ = Phase::process_pairs;
      return next_round();
    case Phase::process_pairs:
      if (fine_ && cursor_.group < pair_schedule().key_groups() && ++step_ < pair_schedule().steps()) return;
      return next_round();
    case Phase::store_queries:
      phase_ = ++group_head_ < group_size() ? Phase::stage_queries : Phase::store_keys;
      return;
    case Phase::store_keys:
      return next_sequence();
    case Phase::store_shared:
      phase_ = Phase::none;
      return;
  }
}

void BackwardHead::next_round() {
  cursor_ = {};
  step_ = 0;
  fine_ = false;
  if (++round_ == pair_schedule().rounds()) phase_ = Phase::store_queries;
}

void BackwardHead::next_sequence() {
  const int64_t next = plan_.sequence(sequence_).next;
  phase_ = next < 0 ? Phase::store_shared : Phase::stage_keys;
  if (next >= 0) sequence_ = next;
}

double BackwardHead::remaining_macs() const {
  if (phase_ != Phase::process_pairs) return 0;
  const Attention &a = *plan_.call().attention;
  const PairSchedule schedule = pair_schedule();
  const double rounds = static_cast<double>(schedule.rounds()), groups = static_cast<double>(schedule.key_groups());
  const double met = static_cast<double>(round_) + static_cast<double>(cursor_.group) / groups;
  const double heads = static_cast<double>(group_size() - group_head_) - met / rounds;
  return heads * static_cast<double>(sequence().queries) * static_cast<double>(sequence().keys) *
         static_cast<double>(3 * a.head_dim + 2 * a.head_dim_v);
}

void BackwardHead::stage_keys(int64_t i) const {
  const BackwardCall &call = plan_.call();
  KeyTile &tile = describe_keys(&keys(i), plan_, sequence_, head_, i * key_block);
  if (shared()) {
    tile.dk = shared_rows(call.dk, shared_dk_, sequence(), call.attention->head_dim);
    tile.dv = shared_rows(call.dv, shared_dv_, sequence(), call.attention->head_dim_v);
    tile.dk_dtype = tile.dv_dtype = FA_F32;
    tile.add_dk = tile.add_dv = true;
  }
  plan_.microkernel().stage_keys(tile);
}

void BackwardHead::stage_queries(int64_t i, void *scratch) const {
  const int64_t head = head_ * group_size() + group_head_;
  BackwardQueryTile &tile = describe_queries(&queries(i), plan_, sequence_, head, i * plan_.microkernel().tile_rows);
  plan_.microkernel().stage_queries(tile, scratch);
}

int64_t BackwardHead::supertile() const {
  const int64_t tiles = std::max(key_tiles(), query_tiles());
  return tiles >= 64 ? 4 : tiles >= 8 ? 2 : 1;
}

PairSchedule BackwardHead::pair_schedule() const {
  return {tiles_of(key_tiles(), supertile()), tiles_of(query_tiles(), supertile())};
}

/// Whether causal mask, window and chunk leave any query of these tiles any key of those. Most tiles of a long sequence
/// under a window do not attend each other, and a look at each pair would take quadratic time.
bool BackwardHead::attends(int64_t first_query_tile, int64_t query_tiles, int64_t first_key_tile,
                           int64_t key_tiles) const {
  const int64_t tile_rows = plan_.microkernel().tile_rows, first = first_query_tile * tile_rows;
  const int64_t last = std::min(first + query_tiles * tile_rows, sequence().queries) - 1;
  if (last < first) return false;
  const Interval keys = sequence().attended(*plan_.call().attention, first, last);
  return keys.low < (first_key_tile + key_tiles) * key_block && first_key_tile * key_block < keys.high;
}

bool BackwardHead::group_attends(int64_t key_group) const {
  const PairSchedule schedule = pair_schedule();
  const int64_t tiles = schedule.group() * supertile(), partner = schedule.partner_group(round_, key_group);
  return partner >= 0 && attends(partner * tiles, tiles, key_group * tiles, tiles);
}

/// In the current round. Keys are traversed forwards and backwards alternately, so that the last ones used come first.
void BackwardHead::process_supertile_pair(int64_t step, int64_t key_supertile, void *scratch) const {
  const int64_t first_key = key_supertile * supertile(), last_key = std::min(first_key + supertile(), key_tiles()) - 1;
  if (first_key > last_key) return;
  const int64_t partner = pair_schedule().partner(round_, step, key_supertile);
  if (partner < 0 || !attends(partner * supertile(), supertile(), first_key, supertile())) return;
  for (int64_t i = partner * supertile(); i < std::min((partner + 1) * supertile(), query_tiles()); i++)
    for (int64_t key = first_key; key <= last_key; key++)
      plan_.microkernel().accumulate(queries(i), keys(i % 2 == 0 ? key : first_key + last_key - key), scratch);
}

/// Supertile i of those that are left. The group that one worker began is ahead of the others.
void BackwardHead::process_supertile(int64_t i, void *scratch) const {
  const PairSchedule schedule = pair_schedule();
  const int64_t key_supertile = cursor_.group * schedule.group() + i;
  const int64_t step = i < schedule.group() ? cursor_.step + step_ : step_;
  const bool met = step_ == 0 && i < cursor_.supertile;
  if (!met && step < schedule.steps()) process_supertile_pair(step, key_supertile, scratch);
}

/// All steps of the round for one group of supertiles. Each tile meets its partners in the same order.
void BackwardHead::process_group(int64_t key_group, void *scratch) const {
  if (!group_attends(key_group)) return;
  const PairSchedule schedule = pair_schedule();
  for (int64_t step = 0; step < schedule.steps(); step++)
    for (int64_t i = 0; i < schedule.group(); i++)
      process_supertile_pair(step, key_group * schedule.group() + i, scratch);
}

void BackwardHead::store_queries(int64_t i, void *scratch) const {
  if (plan_.call().dq) plan_.microkernel().store_queries(queries(i), scratch);
}

/// Calls f(row of k) for every row that some sequence of the chain uses, once.
template <class F>
void BackwardHead::each_shared_row(const F &f) const {
  const auto each_use = [&](const auto &g) {
    for (int64_t b = first_; b >= 0; b = plan_.sequence(b).next) {
      const Sequence &s = plan_.sequence(b).sequence;
      for (int64_t row = s.k_first; row < s.k_first + s.keys; row++) g(row);
    }
  };
  each_use([&](int64_t row) { shared_seen_[row] = false; });
  each_use([&](int64_t row) {
    if (std::exchange(shared_seen_[row], true)) return;
    f(row);
  });
}

void BackwardHead::clear_shared() const {
  const Attention &a = *plan_.call().attention;
  each_shared_row([&](int64_t row) {
    std::fill_n(shared_dk_ + row * a.head_dim, a.head_dim, 0.0f);
    std::fill_n(shared_dv_ + row * a.head_dim_v, a.head_dim_v, 0.0f);
  });
}

/// Where several sequences share the keys: stores the sum of their gradients.
void BackwardHead::store_shared() const {
  const BackwardCall &call = plan_.call();
  const Attention &a = *call.attention;
  const int64_t batch = plan_.sequence(first_).sequence.k_batch;
  const auto store = [&](const View &to, bool add, const float *from, int64_t row, int64_t dim) {
    if (!to) return;
    for (int64_t d = 0; d < dim; d++) {
      char *at = to.at(batch, row, head_, d);
      const float before = add ? load_element<FA_F32>(at) : 0;
      store_element(at, to.dtype, before + from[row * dim + d]);
    }
  };
  each_shared_row([&](int64_t row) {
    store(call.dk, call.adds_to(FA_ACCUMULATE_DK), shared_dk_, row, a.head_dim);
    store(call.dv, call.adds_to(FA_ACCUMULATE_DV), shared_dv_, row, a.head_dim_v);
  });
}

}  // namespace fa::cpu
