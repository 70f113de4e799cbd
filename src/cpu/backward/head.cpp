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

QueryTile &describe_queries(void *memory, const BackwardPlan &plan, int64_t b, int64_t head, int64_t first) {
  const BackwardCall &call = plan.call();
  const Sequence &s = plan.sequence(b).sequence;
  QueryTile &tile = *new (memory) QueryTile;
  describe_inputs(tile, call);
  tile.out_elem = call.out.stride[3];
  tile.dout_elem = call.dout.stride[3];
  tile.dout_dtype = call.dout.dtype;
  tile.dq_elem = call.dq.stride[3];
  tile.dq_dtype = call.dq.dtype;
  tile.head_rows = s.q_len * (call.heads_q / call.heads_kv);
  tile.delta_given = static_cast<bool>(call.delta);
  tile.add_dq = call.adds_to(FA_ACCUMULATE_DQ);
  tile.rows = static_cast<int>(std::min<int64_t>(plan.scheme().tile_rows, s.q_len - first));
  for (int i = 0; i < tile.rows; i++) {
    const int64_t query = first + i, row = s.q_first + query;
    describe_row(tile.row[i], call, s, b, query, head, s.attended(*call.attention, query));
    GradientRow &g = tile.gradient[i];
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
  tile.keys = {cache_rows(call, call.k, s, head), cache_rows(call, call.v, s, head), {}, call.k.dtype};
  tile.first = first;
  tile.n = static_cast<int>(std::min<int64_t>(key_block, s.k_len - first));
  tile.dk = gradient_rows(call, call.dk, s, head);
  tile.dv = gradient_rows(call, call.dv, s, head);
  tile.dk_dtype = call.dk.dtype;
  tile.dv_dtype = call.dv.dtype;
  tile.add_dk = call.adds_to(FA_ACCUMULATE_DK);
  tile.add_dv = call.adds_to(FA_ACCUMULATE_DV);
  return tile;
}

Head::Head(const BackwardPlan &plan, int64_t index, char *slot)
    : plan_(plan),
      head_(index % plan.call().heads_kv),
      first_(plan.first_sequence(index)),
      step_(Step::stage_keys),
      sequence_(first_) {
  const Attention &a = *plan.call().attention;
  const BackwardBounds &bounds = plan.bounds();
  query_memory_ = slot + (sizeof(Head) + 63) / 64 * 64;
  key_memory_ = query_memory_ + bounds.query_tiles * static_cast<int64_t>(plan.scheme().query_bytes(a));
  shared_dk_ =
      reinterpret_cast<float *>(key_memory_ + bounds.key_tiles * static_cast<int64_t>(plan.scheme().key_bytes(a)));
  shared_dv_ = shared_dk_ + plan.call().rows_k * a.head_dim;
  shared_seen_ = reinterpret_cast<bool *>(shared_dv_ + plan.call().rows_k * a.head_dim_v);
  if (shared()) clear_shared();
}

int64_t Head::key_tiles() const {
  return tiles_of(sequence().k_len, key_block);
}

int64_t Head::query_tiles() const {
  return tiles_of(sequence().q_len, plan_.scheme().tile_rows);
}

QueryTile &Head::queries(int64_t tile) const {
  const auto bytes = static_cast<int64_t>(plan_.scheme().query_bytes(*plan_.call().attention));
  return *reinterpret_cast<QueryTile *>(query_memory_ + tile * bytes);
}

KeyTile &Head::keys(int64_t tile) const {
  const auto bytes = static_cast<int64_t>(plan_.scheme().key_bytes(*plan_.call().attention));
  return *reinterpret_cast<KeyTile *>(key_memory_ + tile * bytes);
}

int64_t Head::items() const {
  switch (step_) {
    case Step::none:
      return 0;
    case Step::stage_keys:
    case Step::store_keys:
      return key_tiles();
    case Step::stage_queries:
    case Step::store_queries:
      return query_tiles();
    case Step::store_shared:
      return shared() ? 1 : 0;
    case Step::meet:
      break;
  }
  const Tournament all = tournament();
  return finely_ ? tiles_of(key_tiles(), side()) - begun_.group * all.group() : all.key_groups() - begun_.group;
}

void Head::run_item(int64_t i, void *scratch) const {
  if (i >= items()) return;
  switch (step_) {
    case Step::none:
      return;
    case Step::stage_keys:
      return stage_keys(i);
    case Step::stage_queries:
      return stage_queries(i, scratch);
    case Step::meet:
      return finely_ ? meet_finely(i, scratch) : meet_group(begun_.group + i, scratch);
    case Step::store_queries:
      return store_queries(i, scratch);
    case Step::store_keys:
      return plan_.scheme().store_keys(keys(i));
    case Step::store_shared:
      return store_shared();
  }
}

void Head::cut(bool finely) {
  if (turn_ == 0) finely_ = finely || !begun_.between_groups();
}

void Head::advance() {
  switch (step_) {
    case Step::none:
      return;
    case Step::stage_keys:
      member_ = 0;
      step_ = members() > 0 ? Step::stage_queries : Step::store_keys;
      return;
    case Step::stage_queries:
      round_ = -1;
      step_ = Step::meet;
      return next_round();
    case Step::meet:
      if (finely_ && begun_.group < tournament().key_groups() && ++turn_ < tournament().turns()) return;
      return next_round();
    case Step::store_queries:
      step_ = ++member_ < members() ? Step::stage_queries : Step::store_keys;
      return;
    case Step::store_keys:
      return next_sequence();
    case Step::store_shared:
      step_ = Step::none;
      return;
  }
}

void Head::next_round() {
  begun_ = {};
  turn_ = 0;
  finely_ = false;
  if (++round_ == tournament().rounds()) step_ = Step::store_queries;
}

void Head::next_sequence() {
  const int64_t next = plan_.sequence(sequence_).next;
  step_ = next < 0 ? Step::store_shared : Step::stage_keys;
  if (next >= 0) sequence_ = next;
}

double Head::left() const {
  if (step_ != Step::meet) return 0;
  const Attention &a = *plan_.call().attention;
  const Tournament all = tournament();
  const double rounds = static_cast<double>(all.rounds()), groups = static_cast<double>(all.key_groups());
  const double met = static_cast<double>(round_) + static_cast<double>(begun_.group) / groups;
  const double heads = static_cast<double>(members() - member_) - met / rounds;
  return heads * static_cast<double>(sequence().q_len) * static_cast<double>(sequence().k_len) *
         static_cast<double>(3 * a.head_dim + 2 * a.head_dim_v);
}

void Head::stage_keys(int64_t i) const {
  const BackwardCall &call = plan_.call();
  KeyTile &tile = describe_keys(&keys(i), plan_, sequence_, head_, i * key_block);
  if (shared()) {
    tile.dk = shared_rows(call.dk, shared_dk_, sequence(), call.attention->head_dim);
    tile.dv = shared_rows(call.dv, shared_dv_, sequence(), call.attention->head_dim_v);
    tile.dk_dtype = tile.dv_dtype = FA_F32;
    tile.add_dk = tile.add_dv = true;
  }
  plan_.scheme().stage_keys(tile);
}

void Head::stage_queries(int64_t i, void *scratch) const {
  const int64_t head = head_ * members() + member_;
  QueryTile &tile = describe_queries(&queries(i), plan_, sequence_, head, i * plan_.scheme().tile_rows);
  plan_.scheme().stage_queries(tile, scratch);
}

int64_t Head::side() const {
  const int64_t tiles = std::max(key_tiles(), query_tiles());
  return tiles >= 64 ? 4 : tiles >= 8 ? 2 : 1;
}

Tournament Head::tournament() const {
  return {tiles_of(key_tiles(), side()), tiles_of(query_tiles(), side())};
}

/// Whether causal mask, window and chunk may leave some query of these tiles some key of those. Of a long sequence
/// under a window most tiles have nothing to do with each other, and even to look at each pair of them would take the
/// square of their number.
bool Head::attends(int64_t first_query_tile, int64_t query_tiles, int64_t first_key_tile, int64_t key_tiles) const {
  const int64_t tile_rows = plan_.scheme().tile_rows, first = first_query_tile * tile_rows;
  const int64_t last = std::min(first + query_tiles * tile_rows, sequence().q_len) - 1;
  if (last < first) return false;
  const Sequence::Interval keys = sequence().attended(*plan_.call().attention, first, last);
  return keys.low < (first_key_tile + key_tiles) * key_block && first_key_tile * key_block < keys.high;
}

bool Head::group_attends(int64_t key_group) const {
  const Tournament all = tournament();
  const int64_t tiles = all.group() * side(), partner = all.partner_group(round_, key_group);
  return partner >= 0 && attends(partner * tiles, tiles, key_group * tiles, tiles);
}

/// Of the round. Keys go to and fro: those that the tile of queries before has used last come first.
void Head::meet(int64_t turn, int64_t key_side, void *scratch) const {
  const int64_t first_key = key_side * side(), last_key = std::min(first_key + side(), key_tiles()) - 1;
  if (first_key > last_key) return;
  const int64_t partner = tournament().partner(round_, turn, key_side);
  if (partner < 0 || !attends(partner * side(), side(), first_key, side())) return;
  for (int64_t i = partner * side(); i < std::min((partner + 1) * side(), query_tiles()); i++)
    for (int64_t key = first_key; key <= last_key; key++)
      plan_.scheme().attend(queries(i), keys(i % 2 == 0 ? key : first_key + last_key - key), scratch);
}

/// Side i of those that are left. The group that one worker has begun is ahead of the others.
void Head::meet_finely(int64_t i, void *scratch) const {
  const Tournament all = tournament();
  const int64_t key_side = begun_.group * all.group() + i;
  const int64_t turn = i < all.group() ? begun_.turn + turn_ : turn_;
  const bool met = turn_ == 0 && i < begun_.side;
  if (!met && turn < all.turns()) meet(turn, key_side, scratch);
}

/// All turns of the round, of one group of sides. Each tile meets its partners in the same order.
void Head::meet_group(int64_t key_group, void *scratch) const {
  if (!group_attends(key_group)) return;
  const Tournament all = tournament();
  for (int64_t turn = 0; turn < all.turns(); turn++)
    for (int64_t i = 0; i < all.group(); i++) meet(turn, key_group * all.group() + i, scratch);
}

void Head::store_queries(int64_t i, void *scratch) const {
  if (plan_.call().dq) plan_.scheme().store_queries(queries(i), scratch);
}

/// Calls f(row of k) for every row that some sequence of the chain uses, once.
template <class F>
void Head::each_shared_row(const F &f) const {
  const auto each_use = [&](const auto &g) {
    for (int64_t b = first_; b >= 0; b = plan_.sequence(b).next) {
      const Sequence &s = plan_.sequence(b).sequence;
      for (int64_t row = s.k_first; row < s.k_first + s.k_len; row++) g(row);
    }
  };
  each_use([&](int64_t row) { shared_seen_[row] = false; });
  each_use([&](int64_t row) {
    if (std::exchange(shared_seen_[row], true)) return;
    f(row);
  });
}

void Head::clear_shared() const {
  const Attention &a = *plan_.call().attention;
  each_shared_row([&](int64_t row) {
    std::fill_n(shared_dk_ + row * a.head_dim, a.head_dim, 0.0f);
    std::fill_n(shared_dv_ + row * a.head_dim_v, a.head_dim_v, 0.0f);
  });
}

/// Where several sequences have shared the keys: stores the sum of their gradients.
void Head::store_shared() const {
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
