#include "cpu/worker.h"

#include <algorithm>
#include <new>

#include "cpu/repair.h"
#include "cpu/rows.h"

namespace fa::cpu {

namespace {

constexpr size_t aligned(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/// An item's place in its job.
struct Item {
  int64_t head, tile, split;  // head: the first of its key/value heads
};

Item locate(const Job &job, int64_t item) {
  const int64_t i = item - job.first_item, per_tile = job.items_per_tile();
  // Under a causal mask the last tiles are the longest: they go first, so that threads end together.
  return {i / per_tile / job.tiles * job.heads, job.tiles - 1 - i / per_tile % job.tiles, i % per_tile};
}

class Worker {
 public:
  Worker(Call &call, char *scratch)
      : call_(call), problem_(call.problem), attention_(*call.problem.attention), tile_(*new (scratch) Tile) {
    results_ = reinterpret_cast<float *>(scratch + aligned(sizeof(Tile)));
    fill_constants();
  }

  void run(int64_t item) {
    const Job &job = call_.plan.job_of(item);
    const Item at = locate(job, item);
    fill(job, at, job.heads);
    kernel_scratch_ =
        reinterpret_cast<char *>(results_) +
        aligned(static_cast<size_t>(3 * call_.plan.tile_rows() * (attention_.head_dim_v + 2)) * sizeof(float));
    if (job.items_per_tile() > 1) {
      run_split(job, at);
    } else {
      run_whole(job, at);
    }
  }

 private:
  Partial result(int64_t i) const {
    return partial_at(results_ + i * call_.plan.tile_rows() * (attention_.head_dim_v + 2), tile_.rows);
  }

  Partial partial_at(float *at, int64_t rows) const { return {at, at + rows, at + 2 * rows}; }

  /// One split of the tile's keys, masked values kept out.
  void attend(const Job &job, const Item &at, int64_t split, const Partial &partial) {
    const int64_t begin = job.begin + split * job.keys_per_split;
    const int64_t end = std::max(begin, std::min(begin + job.keys_per_split, job.end));
    job.scheme->attend(tile_, begin, end, partial, kernel_scratch_);
    if (all_finite(tile_, partial)) return;
    if (tile_.heads == 1) return mend_tile(begin, end, partial);
    const int64_t heads = tile_.heads, rows = tile_.rows / heads;
    for (int64_t head = 0; head < heads; head++) {
      fill(job, {at.head + head, at.tile, split}, 1);
      const int64_t first = head * rows;
      mend_tile(begin, end, {partial.max + first, partial.sum + first, partial.values + first * attention_.head_dim_v});
    }
    fill(job, at, heads);
  }

  void mend_tile(int64_t begin, int64_t end, const Partial &partial) {
    if (settle(tile_, begin, end, partial)) return;
    const Partial clean = result(2);
    tile_.finite_values_only = true;
    call_.kernels.general().attend(tile_, begin, end, clean, kernel_scratch_);
    tile_.finite_values_only = false;
    mend(tile_, begin, end, partial, clean);
  }

  /// The job's splits first .. last, of which rows of the tile attend keys; one at least.
  struct Splits {
    int64_t first, last;
  };
  Splits attended_splits(const Job &job) const {
    if (job.splits == 1) return {0, 0};
    int64_t low = job.end, high = job.begin;
    for (int i = 0; i < tile_.rows; i++) {
      if (tile_.row[i].low == tile_.row[i].high) continue;
      low = std::min<int64_t>(low, tile_.row[i].low);
      high = std::max<int64_t>(high, tile_.row[i].high);
    }
    if (low >= high) return {0, 0};
    return {(low - job.begin) / job.keys_per_split, (high - 1 - job.begin) / job.keys_per_split};
  }

  void run_whole(const Job &job, const Item &at) {
    const auto attend_whole = job.scheme->attend_whole;
    const Splits splits = attended_splits(job);
    if (splits.first == splits.last && attend_whole != nullptr && attend_whole(tile_, job.end, kernel_scratch_)) return;
    const Partial total = result(0), next = result(1);
    attend(job, at, splits.first, total);
    for (int64_t split = splits.first + 1; split <= splits.last; split++) {
      attend(job, at, split, next);
      call_.kernels.merge(tile_, total, next);
    }
    call_.kernels.finish(tile_, total);
  }

  /// One split of a tile. Whoever ends a tile's last split folds all of them, in order.
  void run_split(const Job &job, const Item &at) {
    const int64_t floats = attention_.head_dim_v + 2;
    const int64_t first_row = at.head * job.rows + at.tile * job.tile_rows;
    float *const first = call_.plan.partials() + job.first_partial + first_row * job.splits * floats;
    const auto split = [&](int64_t i) { return partial_at(first + i * tile_.rows * floats, tile_.rows); };
    attend(job, at, at.split, split(at.split));
    std::atomic<int32_t> &done = call_.plan.counter(job.first_counter + at.head * job.tiles + at.tile);
    if (done.fetch_add(1, std::memory_order_acq_rel) + 1 < job.splits) return;
    for (int64_t i = 1; i < job.splits; i++) call_.kernels.merge(tile_, split(0), split(i));
    call_.kernels.finish(tile_, split(0));
  }

  void fill_constants() {
    describe_inputs(tile_, problem_);
    tile_.out_elem = problem_.out.stride[3];
  }

  /// The tile of `heads` key/value heads from the item's on.
  void fill(const Job &job, const Item &at, int64_t heads) {
    const Problem &p = problem_;
    const int64_t group = p.heads_q / p.heads_kv, first = at.tile * job.tile_rows;
    tile_.rows = 0;
    tile_.heads = static_cast<int>(heads);
    tile_.keys = {cache_rows(p, p.k, job.sequence, at.head), cache_rows(p, p.v, job.sequence, at.head),
                  pages_of(p, job.sequence, sequence_index(job)), p.k.dtype};
    for (int64_t head = at.head; head < at.head + heads; head++) {
      int64_t query = first / group, member = first % group;
      Sequence::Interval interval = job.sequence.attended(attention_, query);
      for (int64_t left = std::min(job.tile_rows, job.rows - first); left > 0; left--) {
        fill_row(tile_.row[tile_.rows++], job, query, head * group + member, interval);
        if (++member == group) {
          member = 0;
          interval = job.sequence.attended(attention_, ++query);
        }
      }
    }
  }

  int64_t sequence_index(const Job &job) const { return &job - &call_.plan.job(0); }

  void fill_row(Row &row, const Job &job, int64_t query, int64_t head, Sequence::Interval interval) const {
    const Problem &p = problem_;
    const Sequence &s = job.sequence;
    describe_row(row, p, s, sequence_index(job), query, head, interval);
    row.out = p.out.at(s.q_batch, s.q_first + query, head);
    row.lse = p.lse ? p.lse.at<float>(s.q_batch, head, s.q_first + query) : nullptr;
  }

  Call &call_;
  const Problem &problem_;
  const Attention &attention_;
  Tile &tile_;
  float *results_;
  char *kernel_scratch_ = nullptr;
};

}  // namespace

void work(Call &call, int64_t i) {
  Worker worker(call, call.plan.scratch(i));
  for (int64_t item; (item = call.next.fetch_add(1, std::memory_order_relaxed)) < call.plan.items();) worker.run(item);
}

}  // namespace fa::cpu
