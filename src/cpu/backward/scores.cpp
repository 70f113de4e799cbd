#include "cpu/backward/scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cpu/backward/head.h"
#include "cpu/element.h"
#include "cpu/masked.h"

namespace fa::cpu {

namespace {

/// The tiles of dbias: a dimension of 1 has one tile, which covers all scores along it.
struct BiasTiles {
  int64_t batch, heads, queries, keys;

  BiasTiles(const BackwardCall &call, const BackwardMicrokernel &microkernel)
      : batch(call.dbias_shape[0]),
        heads(call.dbias_shape[1]),
        queries((call.dbias_shape[2] + microkernel.tile_rows - 1) / microkernel.tile_rows),
        keys((call.dbias_shape[3] + key_block - 1) / key_block) {}

  Count count() const { return Count(batch) * heads * queries * keys; }
};

/// The numbers from one on: a tile's own, or where a dimension is repeated all of them.
struct Range {
  int64_t begin, end, step;
};
Range own(int64_t tile, int64_t dimension, int64_t all, int64_t step) {
  if (dimension == 1) return {0, all, step};
  return {tile * step, std::min((tile + 1) * step, all), step};
}
template <class F>
void for_each(const Range &range, const F &f) {
  for (int64_t i = range.begin; i < range.end; i += range.step) f(i);
}

class BiasTile {
 public:
  BiasTile(const BackwardPlan &plan, int64_t item, char *scratch) : plan_(plan), scratch_(scratch) {
    const BackwardCall &call = plan.call();
    const BackwardMicrokernel &microkernel = plan.microkernel();
    const BiasTiles tiles(call, microkernel);
    key_tile_ = item % tiles.keys;
    query_tile_ = item / tiles.keys % tiles.queries;
    head_ = item / tiles.keys / tiles.queries % tiles.heads;
    batch_ = item / tiles.keys / tiles.queries / tiles.heads;
    query_memory_ = scratch + microkernel.scratch_bytes(*call.attention);
    key_memory_ = query_memory_ + microkernel.query_bytes(*call.attention);
    sum_ = reinterpret_cast<float *>(key_memory_ + microkernel.key_bytes(*call.attention));
  }

  void compute() {
    const BackwardCall &call = plan_.call();
    const int64_t *shape = call.dbias_shape;
    const int64_t group = call.heads_q / std::max<int64_t>(call.heads_kv, 1), tile_rows = plan_.microkernel().tile_rows;
    std::fill_n(sum_, key_block * tile_rows, 0.0f);
    for_each(own(batch_, shape[0], call.batch, 1), [&](int64_t b) {
      const Sequence &s = plan_.sequence(b).sequence;
      for_each(own(head_, shape[1], call.heads_q, 1), [&](int64_t head) {
        for_each(own(key_tile_, shape[3], s.keys, key_block), [&](int64_t key) {
          KeyTile &keys = describe_keys(key_memory_, plan_, b, head / group, key);
          bool staged = false;
          for_each(own(query_tile_, shape[2], s.queries, tile_rows), [&](int64_t query) {
            BackwardQueryTile &queries = describe_queries(query_memory_, plan_, b, head, query);
            if (block_masked(queries, 0, queries.rows, keys.first, keys.first + keys.n)) return;
            if (!std::exchange(staged, true)) plan_.microkernel().stage_keys(keys);
            plan_.microkernel().stage_queries(queries, scratch_);
            plan_.microkernel().sum_scores(queries, keys, call.attention->bias_before_softcap, sum_, scratch_);
          });
        });
      });
    });
    store();
  }

 private:
  void store() const {
    const BackwardCall &call = plan_.call();
    const int64_t tile_rows = plan_.microkernel().tile_rows;
    const bool one_query = call.dbias_shape[2] == 1, one_key = call.dbias_shape[3] == 1,
               add = call.adds_to(FA_ACCUMULATE_DBIAS);
    const int64_t first_query = query_tile_ * tile_rows, first_key = key_tile_ * key_block;
    const int64_t queries = std::min(tile_rows, call.dbias_shape[2] - first_query);
    const int64_t keys = std::min<int64_t>(key_block, call.dbias_shape[3] - first_key);
    for (int64_t i = 0; i < queries; i++)
      for (int64_t j = 0; j < keys; j++) {
        double sum = 0;
        for (int64_t key = j; key < (one_key ? key_block : j + 1); key++)
          for (int64_t query = i; query < (one_query ? tile_rows : i + 1); query++)
            sum += sum_[key * tile_rows + query];
        char *at = call.dbias.at(batch_, head_, first_query + i, first_key + j);
        const float before = add ? load_element<FA_F32>(at) : 0;
        store_element(at, call.dbias.dtype, before + static_cast<float>(sum));
      }
  }

  const BackwardPlan &plan_;
  char *scratch_, *query_memory_, *key_memory_;
  float *sum_;  // [key_block][tile_rows]
  int64_t batch_, head_, query_tile_, key_tile_;
};

/// dsinks = sum of exp(sink - lse) (dlse - delta), over the rows of a head, and over the batch where that is repeated.
void compute_sink(const BackwardPlan &plan, int64_t batch, int64_t head) {
  const BackwardCall &call = plan.call();
  const Attention &a = *call.attention;
  double sum = 0;
  for_each(own(batch, call.dsinks_batch, call.batch, 1), [&](int64_t b) {
    const Sequence &s = plan.sequence(b).sequence;
    const float sink = *call.sinks.at<const float>(b, head, 0);
    for (int64_t row = s.q_first; row < s.q_first + s.queries; row++) {
      const float lse = *call.lse.at<const float>(s.q_batch, head, row);
      if (lse == -std::numeric_limits<float>::infinity()) continue;
      const double weight = std::exp(static_cast<double>(sink) - static_cast<double>(lse));
      if (weight == 0) continue;
      double delta = 0;
      if (call.delta) {
        delta = *call.delta.at<const float>(s.q_batch, head, row);
      } else {
        for (int64_t d = 0; d < a.head_dim_v; d++)
          delta += static_cast<double>(load_element(call.out.at(s.q_batch, row, head, d), a.out_dtype)) *
                   static_cast<double>(load_element(call.dout.at(s.q_batch, row, head, d), call.dout.dtype));
      }
      const double dlse = call.dlse ? static_cast<double>(*call.dlse.at<const float>(s.q_batch, head, row)) : 0;
      sum += weight * (dlse - delta);
    }
  });
  float *to = call.dsinks.at<float>(call.dsinks_batch == 1 ? 0 : batch, head, 0);
  *to = (call.adds_to(FA_ACCUMULATE_DSINKS) ? *to : 0) + static_cast<float>(sum);
}

Count bias_items(const BackwardCall &call, const BackwardMicrokernel &microkernel) {
  return call.dbias ? BiasTiles(call, microkernel).count() : 0;
}

}  // namespace

Count score_items(const BackwardCall &call, const BackwardMicrokernel &microkernel) {
  return bias_items(call, microkernel) + (call.dsinks ? Count(call.dsinks_batch) * call.heads_q : 0);
}

Count score_bytes(const BackwardCall &call, const BackwardMicrokernel &microkernel) {
  const Attention &a = *call.attention;
  if (!call.dbias) return 0;
  return Count(microkernel.query_bytes(a)) + microkernel.key_bytes(a) +
         Count(key_block * microkernel.tile_rows) * static_cast<int64_t>(sizeof(float));
}

void compute_scores(const BackwardPlan &plan, int64_t i, char *scratch) {
  const BackwardCall &call = plan.call();
  const int64_t bias = static_cast<int64_t>(bias_items(call, plan.microkernel()).value());
  if (i < bias) return BiasTile(plan, i, scratch).compute();
  compute_sink(plan, (i - bias) / call.heads_q, (i - bias) % call.heads_q);
}

}  // namespace fa::cpu
