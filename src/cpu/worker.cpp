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

/// What a worker takes: the item of a tile, or those of several heads.
struct Taken {
  int64_t head, tile, split;  // head: the first of them
  int64_t heads;
};

Taken locate(const Job &job, int64_t item, int64_t heads_kv) {
  const int64_t i = item - job.first_item, per_tile = job.items_per_tile();
  if (job.most_heads > 1) return {i % heads_kv, 0, i / heads_kv, 1};
  // Under a causal mask the last tiles are the longest: they go first, so that threads end together.
  return {i / per_tile / job.tiles, job.tiles - 1 - i / per_tile % job.tiles, i % per_tile, 1};
}

class Worker {
 public:
  Worker(Call &call, char *scratch)
      : call_(call), problem_(call.problem), attention_(*call.problem.attention), tile_(*new (scratch) Tile) {
    results_ = reinterpret_cast<float *>(scratch + aligned(sizeof(Tile)));
    const int64_t floats = 3 * call.plan.tile_rows() * (attention_.head_dim_v + 2);
    kernel_scratch_ = reinterpret_cast<char *>(results_) + aligned(static_cast<size_t>(floats) * sizeof(float));
    fill_constants();
  }

  void run() {
    for (Taken at; const Job *job = take(&at);) run(*job, at);
  }

 private:
  /// The next item's job, or null. Heads that lie next to each other are read faster together: as many as leave all
  /// workers something to take, four times at first and once at the end, where whoever is slow has little of the rest.
  const Job *take(Taken *at) {
    const int64_t items = call_.plan.items(), heads_kv = problem_.heads_kv;
    for (int64_t item = call_.next.load(std::memory_order_relaxed); item < items;) {
      const Job &job = call_.plan.job_of(item);
      *at = locate(job, item, heads_kv);
      if (job.most_heads > 1) {
        const int64_t share = call_.workers > 1 ? std::min(items / 4, items - item) / call_.workers : heads_kv;
        at->heads = std::clamp<int64_t>(share, 1, std::min(job.most_heads, heads_kv - at->head));
      }
      if (call_.next.compare_exchange_weak(item, item + at->heads, std::memory_order_relaxed)) return &job;
    }
    return nullptr;
  }

  void run(const Job &job, const Taken &at) {
    fill(job, at);
    if (job.items_per_tile() > 1) {
      run_split(job, at);
    } else {
      run_whole(job, at);
    }
  }

  Partial result(int64_t i) const {
    float *at = results_ + i * call_.plan.tile_rows() * (attention_.head_dim_v + 2);
    return {at, at + tile_.rows, at + 2 * tile_.rows};
  }

  /// In the plan's partial results: of a split, from the first row of what was taken on.
  Partial partial(const Job &job, const Taken &at, int64_t split) const {
    const int64_t rows = problem_.heads_kv * job.rows, all = job.splits * rows;
    const int64_t first = split * rows + at.head * job.rows + at.tile * job.tile_rows;
    float *const of_job = call_.plan.partials() + job.first_partial;
    return {of_job + first, of_job + all + first, of_job + 2 * all + first * attention_.head_dim_v};
  }

  /// One split of the tile's keys, masked values kept out.
  void attend(const Job &job, const Taken &at, int64_t split, const Partial &partial) {
    const int64_t begin = job.begin + split * job.keys_per_split;
    const int64_t end = std::max(begin, std::min(begin + job.keys_per_split, job.end));
    job.scheme->attend(tile_, begin, end, partial, kernel_scratch_);
    if (all_finite(tile_, partial)) return;
    if (tile_.heads == 1) return mend_tile(begin, end, partial);
    const int64_t heads = tile_.heads, rows = tile_.rows / heads;
    for (int64_t head = 0; head < heads; head++) {
      fill(job, {at.head + head, at.tile, split, 1});
      const int64_t first = head * rows;
      mend_tile(begin, end, {partial.max + first, partial.sum + first, partial.values + first * attention_.head_dim_v});
    }
    fill(job, at);
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

  void run_whole(const Job &job, const Taken &at) {
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

  /// One split of a tile. Whoever ends the last split of a head's tile folds all of them, in order.
  void run_split(const Job &job, const Taken &at) {
    attend(job, at, at.split, partial(job, at, at.split));
    Taken ended = {at.head, at.tile, at.split, 0};
    for (int64_t head = at.head; head < at.head + at.heads; head++) {
      std::atomic<int32_t> &done = call_.plan.counter(job.first_counter + head * job.tiles + at.tile);
      if (done.fetch_add(1, std::memory_order_acq_rel) + 1 == job.splits) {
        ended.heads++;
        continue;
      }
      fold(job, ended);
      ended = {head + 1, at.tile, at.split, 0};
    }
    fold(job, ended);
  }

  void fold(const Job &job, const Taken &at) {
    if (at.heads == 0) return;
    fill(job, at);
    for (int64_t i = 1; i < job.splits; i++) call_.kernels.merge(tile_, partial(job, at, 0), partial(job, at, i));
    call_.kernels.finish(tile_, partial(job, at, 0));
  }

  void fill_constants() {
    describe_inputs(tile_, problem_);
    tile_.out_elem = problem_.out.stride[3];
  }

  /// The tile of what was taken.
  void fill(const Job &job, const Taken &at) {
    const ForwardCall &p = problem_;
    const int64_t group = p.heads_q / p.heads_kv, first = at.tile * job.tile_rows;
    tile_.rows = 0;
    tile_.heads = static_cast<int>(at.heads);
    tile_.keys = {cache_rows(p, p.k, job.sequence, at.head), cache_rows(p, p.v, job.sequence, at.head),
                  pages_of(p, job.sequence, sequence_index(job)), p.k.dtype};
    for (int64_t head = at.head; head < at.head + at.heads; head++) {
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
    const ForwardCall &p = problem_;
    const Sequence &s = job.sequence;
    describe_row(row, p, s, sequence_index(job), query, head, interval);
    row.out = p.out.at(s.q_batch, s.q_first + query, head);
    row.lse = p.lse ? p.lse.at<float>(s.q_batch, head, s.q_first + query) : nullptr;
  }

  Call &call_;
  const ForwardCall &problem_;
  const Attention &attention_;
  Tile &tile_;
  float *results_;
  char *kernel_scratch_;
};

}  // namespace

void work(Call &call, int64_t i) {
  Worker(call, call.plan.scratch(i)).run();
}

}  // namespace fa::cpu
