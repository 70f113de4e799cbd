#include "cpu/worker.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "cpu/nonfinite.h"
#include "cpu/rows.h"
#include "cpu/tree_rows.h"

namespace fa::cpu {

namespace {

constexpr size_t aligned(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/// An item of the plan, or the items of several heads, which a worker takes together.
struct WorkItem {
  int64_t head, tile, split;  // head: the first one
  int64_t heads;
};

WorkItem locate(const SequencePlan &plan, int64_t index, int64_t heads_kv) {
  const int64_t i = index - plan.first_item, per_tile = plan.items_per_tile();
  if (plan.max_heads > 1) return {i % heads_kv, 0, i / heads_kv, 1};
  // Under a causal mask the last tiles are the longest: they go first, so that threads end together.
  return {i / per_tile / plan.tiles, plan.tiles - 1 - i / per_tile % plan.tiles, i % per_tile, 1};
}

class Worker {
 public:
  Worker(SharedState &shared, char *scratch)
      : shared_(shared),
        call_(shared.call),
        attention_(*shared.call.attention),
        tile_(*new (scratch) ForwardQueryTile) {
    results_ = reinterpret_cast<float *>(scratch + aligned(sizeof(ForwardQueryTile)));
    const int64_t floats = rows_of_results(shared.kernels, shared.plan.tile_rows()) * (attention_.head_dim_v + 2);
    kernel_scratch_ = reinterpret_cast<char *>(results_) + aligned(static_cast<size_t>(floats) * sizeof(float));
    fill_constants();
  }

  void run() {
    for (WorkItem item; const SequencePlan *plan = next_item(&item);) process(*plan, item);
  }

 private:
  /// Takes the next item, and returns the plan of its sequence, or null. Interleaved heads are read faster together: a
  /// worker takes a quarter of an equal share at first, and all of the rest at the end (guided scheduling), so that
  /// others have work, too.
  const SequencePlan *next_item(WorkItem *item) {
    const int64_t items = shared_.plan.items(), heads_kv = call_.heads_kv;
    for (int64_t index = shared_.next.load(std::memory_order_relaxed); index < items;) {
      const SequencePlan &plan = shared_.plan.sequence_of(index);
      *item = locate(plan, index, heads_kv);
      if (plan.max_heads > 1) {
        const int64_t heads = shared_.workers > 1 ? std::min(items / 4, items - index) / shared_.workers : heads_kv;
        item->heads = std::clamp<int64_t>(heads, 1, std::min(plan.max_heads, heads_kv - item->head));
      }
      if (shared_.next.compare_exchange_weak(index, index + item->heads, std::memory_order_relaxed)) return &plan;
    }
    return nullptr;
  }

  void process(const SequencePlan &plan, const WorkItem &item) {
    fill_tile(plan, item);
    if (plan.items_per_tile() > 1) {
      process_split(plan, item);
    } else {
      process_tile(plan, item);
    }
  }

  /// The partial results in a worker's scratch (rows_of_results); those of exact begin where the others end.
  enum Result { total_result, next_result, clean_result, exact_result };

  Partial scratch_partial(Result result) const {
    float *at = results_ + result * shared_.plan.tile_rows() * (attention_.head_dim_v + 2);
    return {at, at + tile_.rows, at + 2 * tile_.rows};
  }

  /// The partial result of a split in the workspace, from the item's first row on. There the maxima of all splits come
  /// first, then all sums, then all values.
  Partial split_partial(const SequencePlan &plan, const WorkItem &item, int64_t split) const {
    const int64_t rows = call_.heads_kv * plan.rows, all = plan.splits * rows;
    const int64_t first = split * rows + item.head * plan.rows + item.tile * plan.tile_rows;
    float *const base = shared_.plan.partials() + plan.first_partial;
    return {base + first, base + all + first, base + 2 * all + first * attention_.head_dim_v};
  }

  /// One split of the tile's keys, without contributions of masked values.
  void compute_split(const SequencePlan &plan, const WorkItem &item, int64_t split, const Partial &partial) {
    const int64_t begin = plan.begin + split * plan.keys_per_split;
    const int64_t end = std::max(begin, std::min(begin + plan.keys_per_split, plan.end));
    compute_partial(*plan.microkernel, begin, end, partial);
    if (all_finite(tile_, partial)) return;
    if (tile_.heads == 1) return fix_nonfinite(*plan.microkernel, begin, end, partial);
    const int64_t heads = tile_.heads, rows = tile_.rows / heads;
    for (int64_t head = 0; head < heads; head++) {
      fill_tile(plan, {item.head + head, item.tile, split, 1});
      const int64_t first = head * rows;
      fix_nonfinite(*plan.microkernel, begin, end,
                    {partial.max + first, partial.sum + first, partial.values + first * attention_.head_dim_v});
    }
    fill_tile(plan, item);
  }

  void compute_partial(const Microkernel &microkernel, int64_t begin, int64_t end, const Partial &partial) {
    microkernel.compute_partial(tile_, begin, end, partial, kernel_scratch_);
    if (microkernel.finite_scores_only) recompute_nonfinite_rows(begin, end, partial);
  }

  /// Rows whose sum is not finite by the last microkernel, whose tiles may be smaller. Others keep their bits.
  void recompute_nonfinite_rows(int64_t begin, int64_t end, const Partial &partial) {
    const Microkernel &last = shared_.kernels.fallback();
    const int64_t dim = attention_.head_dim_v;
    float *const memory = results_ + exact_result * shared_.plan.tile_rows() * (dim + 2);
    const Partial exact = {memory, memory + last.max_rows, memory + 2 * last.max_rows};
    const int head_rows = tile_.rows / tile_.heads;
    QueryTile some;
    for (int first = 0; first < tile_.rows; first += some.rows) {
      const int in_head = first % head_rows;
      some = tile_of_head(tile_, first / head_rows);
      some.rows = std::min(last.max_rows, head_rows - in_head);
      some.row += in_head;
      some.tree += in_head;
      const auto is_finite = [](float sum) { return std::isfinite(sum); };
      if (std::all_of(partial.sum + first, partial.sum + first + some.rows, is_finite)) continue;
      last.compute_partial(some, begin, end, exact, kernel_scratch_);
      for (int i = 0; i < some.rows; i++) {
        const int row = first + i;
        if (is_finite(partial.sum[row])) continue;
        partial.max[row] = exact.max[i];
        partial.sum[row] = exact.sum[i];
        std::copy_n(exact.values + i * dim, dim, partial.values + row * dim);
      }
    }
  }

  void fix_nonfinite(const Microkernel &microkernel, int64_t begin, int64_t end, const Partial &partial) {
    if (propagate_attended_nonfinite(tile_, begin, end, partial)) return;
    const Partial clean = scratch_partial(clean_result);
    tile_.finite_values_only = true;
    compute_partial(microkernel.finite_values ? microkernel : shared_.kernels.fallback(), begin, end, clean);
    tile_.finite_values_only = false;
    replace_by_finite(tile_, begin, end, partial, clean);
  }

  /// The sequence's splits first .. last that have keys which rows of the tile attend; at least one.
  struct Splits {
    int64_t first, last;
  };
  Splits attended_splits(const SequencePlan &plan) const {
    if (plan.splits == 1) return {0, 0};
    int64_t low = plan.end, high = plan.begin;
    for (int i = 0; i < tile_.rows; i++) {
      if (tile_.row[i].low == tile_.row[i].high) continue;
      low = std::min<int64_t>(low, tile_.row[i].low);
      high = std::max<int64_t>(high, tile_.row[i].high);
    }
    if (low >= high) return {0, 0};
    return {(low - plan.begin) / plan.keys_per_split, (high - 1 - plan.begin) / plan.keys_per_split};
  }

  void process_tile(const SequencePlan &plan, const WorkItem &item) {
    const auto compute_output = plan.microkernel->compute_output;
    const Splits splits = attended_splits(plan);
    if (splits.first == splits.last && compute_output != nullptr && compute_output(tile_, plan.end, kernel_scratch_))
      return;
    const Partial total = scratch_partial(total_result), next = scratch_partial(next_result);
    compute_split(plan, item, splits.first, total);
    for (int64_t split = splits.first + 1; split <= splits.last; split++) {
      compute_split(plan, item, split, next);
      shared_.kernels.merge(tile_, total, next);
    }
    shared_.kernels.finish(tile_, total);
  }

  /// One split of a tile. The worker that ends the last split of a head's tile combines all of them, in order.
  void process_split(const SequencePlan &plan, const WorkItem &item) {
    compute_split(plan, item, item.split, split_partial(plan, item, item.split));
    WorkItem complete = {item.head, item.tile, item.split, 0};
    for (int64_t head = item.head; head < item.head + item.heads; head++) {
      std::atomic<int32_t> &done = shared_.plan.counter(plan.first_counter + head * plan.tiles + item.tile);
      if (done.fetch_add(1, std::memory_order_acq_rel) + 1 == plan.splits) {
        complete.heads++;
        continue;
      }
      combine_splits(plan, complete);
      complete = {head + 1, item.tile, item.split, 0};
    }
    combine_splits(plan, complete);
  }

  void combine_splits(const SequencePlan &plan, const WorkItem &item) {
    if (item.heads == 0) return;
    fill_tile(plan, item);
    for (int64_t i = 1; i < plan.splits; i++)
      shared_.kernels.merge(tile_, split_partial(plan, item, 0), split_partial(plan, item, i));
    shared_.kernels.finish(tile_, split_partial(plan, item, 0));
  }

  void fill_constants() {
    describe_inputs(tile_, call_);
    tile_.out_elem = call_.out.stride[3];
  }

  /// The query tile of an item.
  void fill_tile(const SequencePlan &plan, const WorkItem &item) {
    const int64_t group = call_.heads_q / call_.heads_kv, first = item.tile * plan.tile_rows;
    tile_.rows = 0;
    tile_.heads = static_cast<int>(item.heads);
    tile_.keys = {cache_rows(call_, call_.k, plan.sequence, item.head),
                  cache_rows(call_, call_.v, plan.sequence, item.head),
                  pages_of(call_, plan.sequence, sequence_index(plan)),
                  {factors(plan, item, call_.k_scale, call_.channels.k_scale),
                   factors(plan, item, call_.k_zero, call_.channels.k_zero)},
                  {factors(plan, item, call_.v_scale, call_.channels.v_scale),
                   factors(plan, item, call_.v_zero, call_.channels.v_zero)}};
    if (call_.k_rope)
      tile_.keys.k_rope = cache_rows(call_, call_.k_rope, plan.sequence, item.head),
      tile_.keys.k_rope_dim = attention_.head_dim_rope;
    tile_.new_keys = new_keys_of(call_, plan.sequence);
    for (int64_t head = item.head; head < item.head + item.heads; head++) {
      int64_t query = first / group, member = first % group;
      Interval keys = plan.sequence.attended(attention_, query);
      for (int64_t left = std::min(plan.tile_rows, plan.rows - first); left > 0; left--) {
        fill_row(tile_.rows++, plan, query, head * group + member, keys);
        if (++member == group) {
          member = 0;
          keys = plan.sequence.attended(attention_, ++query);
        }
      }
    }
  }

  Factors factors(const SequencePlan &plan, const WorkItem &item, const View &tensor, int64_t channels) const {
    if (!tensor) return {};
    return {cache_rows(call_, tensor, plan.sequence, item.head), channels};
  }

  int64_t sequence_index(const SequencePlan &plan) const { return &plan - &shared_.plan.sequence(0); }

  void fill_row(int i, const SequencePlan &plan, int64_t query, int64_t head, Interval keys) const {
    const Sequence &s = plan.sequence;
    QueryRow &row = tile_.row[i];
    if (call_.tree_mask) keys = describe_tree_row(tile_.tree[i], call_, tile_.new_keys, s, query, head);
    describe_row(row, call_, s, sequence_index(plan), query, head, keys);
    if (call_.tree_mask) set_position(row, tile_.tree[i].position);
    row.out = call_.out.at(s.q_batch, s.q_first + query, head);
    row.lse = call_.lse ? call_.lse.at<float>(s.q_batch, head, s.q_first + query) : nullptr;
  }

  SharedState &shared_;
  const ForwardCall &call_;
  const Attention &attention_;
  QueryTile &tile_;
  float *results_;
  char *kernel_scratch_;
};

}  // namespace

void run_worker(SharedState &shared, int64_t i) {
  Worker(shared, shared.plan.scratch(i)).run();
}

}  // namespace fa::cpu
