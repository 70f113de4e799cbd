// Load balance of a call in virtual time: kernels that compute nothing and take time proportional to their scores, on
// threads of which one is half as fast. The makespan is compared with the ideal.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "core/thread_state.h"
#include "cpu/backward/microkernel.h"
#include "cpu/engine.h"

namespace fa::cpu {
namespace {

/// Virtual clocks of an application's threads. A thread that has spent time waits until no other is behind it, so that
/// threads take work in the order in which threads of such speeds would.
class Clocks {
 public:
  /// slow: the factor by which the first thread is slower.
  Clocks(int64_t threads, double slow) : slow_(slow), clocks_(size_t(threads)), busy_(size_t(threads)) {}

  static void parallel_for(void *self, fa_task task, void *ctx, int64_t n) {
    static_cast<Clocks *>(self)->run(task, ctx, n);
  }

  /// On the thread that is this one.
  void spend(double time) {
    std::unique_lock<std::mutex> lock(mutex_);
    work_ += time;
    if (self < 0) {
      now_ += time;
      return;
    }
    clocks_[size_t(self)] += self == 0 ? slow_ * time : time;
    wait(&lock);
  }

  /// The makespan, relative to the time of all threads without waiting.
  double of_ideal() const { return now_ / (work_ / (double(clocks_.size()) - 1 + 1 / slow_)); }

 private:
  void run(fa_task task, void *ctx, int64_t n) {
    std::fill(clocks_.begin(), clocks_.end(), now_);
    std::fill(busy_.end() - n, busy_.end(), true);
    std::vector<std::thread> threads;
    for (int64_t i = 0; i < n; ++i)
      threads.emplace_back([=, this] {
        self = int64_t(clocks_.size()) - 1 - i;  // the slow one comes last
        spend(0);
        task(ctx, i);
        const std::lock_guard<std::mutex> lock(mutex_);
        busy_[size_t(self)] = false;
        turn_.notify_all();
      });
    for (std::thread &thread : threads) thread.join();
    now_ = *std::max_element(clocks_.begin(), clocks_.end());
  }

  void wait(std::unique_lock<std::mutex> *lock) {
    turn_.notify_all();
    turn_.wait(*lock, [this] {
      for (size_t i = 0; i < clocks_.size(); ++i) {
        const bool before =
            clocks_[i] < clocks_[size_t(self)] || (clocks_[i] == clocks_[size_t(self)] && i < size_t(self));
        if (busy_[i] && before) return false;
      }
      return true;
    });
  }

  static thread_local int64_t self;

  double slow_;
  std::mutex mutex_;
  std::condition_variable turn_;
  std::vector<double> clocks_;
  std::vector<char> busy_;
  double now_ = 0, work_ = 0;
};

thread_local int64_t Clocks::self = -1;

Clocks *clocks = nullptr;

/// The number of (query, attended key) pairs of these keys.
double scores(const QueryTile &tile, int64_t begin, int64_t end) {
  int64_t count = 0;
  for (int i = 0; i < tile.rows; ++i)
    count += std::max<int64_t>(std::min<int64_t>(end, tile.row[i].high) - std::max<int64_t>(begin, tile.row[i].low), 0);
  return double(count);
}

void attend(const QueryTile &tile, int64_t begin, int64_t end, const Partial &partial, void *) {
  std::fill_n(partial.max, tile.rows, 0.0f);
  std::fill_n(partial.sum, tile.rows, 1.0f);
  std::fill_n(partial.values, tile.rows * tile.attention->head_dim_v, 0.0f);
  clocks->spend(scores(tile, begin, end));
}

constexpr Microkernel microkernels[] = {
    {.tile_rows = 16,
     .max_rows = 16,
     .many_tiles = false,
     .max_heads = 128,
     .max_rows_of_heads = 128,
     .any_stride = true,
     .supports = [](const Attention &attention) { return !attention.batch_invariant; },
     .scratch_bytes = [](const Attention &, int) { return size_t{64}; },
     .compute_partial = attend,
     .compute_output = nullptr},
    {.tile_rows = 48,
     .max_rows = 48,
     .many_tiles = true,
     .max_heads = 1,
     .max_rows_of_heads = 0,
     .any_stride = true,
     .supports = [](const Attention &) { return true; },
     .scratch_bytes = [](const Attention &, int) { return size_t{64}; },
     .compute_partial = attend,
     .compute_output = nullptr},
};

/// The partners of each tile of a backward pass, in the order of accumulation. The address of the first row identifies
/// a tile.
class PairLog {
 public:
  void add(const void *queries, const void *keys) {
    const std::lock_guard<std::mutex> lock(mutex_);
    of_queries[queries].push_back(keys);
    of_keys[keys].push_back(queries);
  }

  std::map<const void *, std::vector<const void *>> of_queries, of_keys;

 private:
  std::mutex mutex_;
};

PairLog *pair_log = nullptr;

/// A pair of tiles that is not wholly masked takes the time of all its scores.
void accumulate(const BackwardQueryTile &queries, const KeyTile &keys, void *) {
  int64_t low = keys.first + keys.n, high = keys.first;
  for (int i = 0; i < queries.rows; ++i) {
    low = std::min<int64_t>(low, queries.row[i].low);
    high = std::max<int64_t>(high, queries.row[i].high);
  }
  pair_log->add(queries.row[0].q, keys.keys.k.data + keys.first * keys.keys.k.row);
  if (low < keys.first + keys.n && high > keys.first) clocks->spend(double(queries.rows) * double(keys.n));
}

constexpr size_t whole_lines(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

constexpr BackwardMicrokernel backward = {
    .tile_rows = 64,
    .query_bytes = [](const Attention &) { return whole_lines(sizeof(BackwardQueryTile)); },
    .key_bytes = [](const Attention &) { return whole_lines(sizeof(KeyTile)); },
    .scratch_bytes = [](const Attention &) { return size_t{64}; },
    .stage_queries = [](BackwardQueryTile &, void *) {},
    .stage_keys = [](KeyTile &) {},
    .accumulate = accumulate,
    .sum_scores = [](const BackwardQueryTile &, const KeyTile &, bool, float *, void *) {},
    .store_queries = [](const BackwardQueryTile &, void *) {},
    .store_keys = [](const KeyTile &) {},
};

constexpr IsaKernels kernels = {
    .microkernels = microkernels,
    .microkernel_count = 2,
    .merge = [](const QueryTile &, const Partial &, const Partial &) {},
    .finish = [](const QueryTile &, const Partial &) {},
    .backward = &backward,
    .merge_parts = [](const MergeCall &, int64_t, int64_t) {},
    .convert_rows = [](const TokenRows &) {},
    .rotate_rows = [](const TokenRows &, const TokenRotation &) {},
    .rotate_whole_rows = [](const TokenRows &, const TokenRotation &, int64_t) {},
    .quantise_rows = [](const TokenRows &, const TokenCodes &, const TokenRotation &, int64_t) {},
};

struct Shape {
  int64_t batch, heads_q, heads_kv, queries, keys;
  fa_mask mask = FA_MASK_NONE;
  bool heads_apart = false;  // BHSD
};

/// The memory of all tensors: no kernel here reads it, except for numbers that are 0.
alignas(64) float nothing[1];

View view(const Shape &s, int64_t rows, int64_t heads) {
  const int64_t row = s.heads_apart ? 256 : heads * 256, head = s.heads_apart ? rows * 256 : 256;
  return View{reinterpret_cast<char *>(nothing), {rows * heads * 256, row, head, 4}, FA_F32};
}

void describe(const Shape &s, Inputs *call) {
  call->batch = call->batch_k = s.batch;
  call->heads_q = s.heads_q, call->heads_kv = s.heads_kv;
  call->rows_q = call->max_seqlen_q = s.queries;
  call->rows_k = call->max_seqlen_k = s.keys;
  call->q = view(s, s.queries, s.heads_q);
  call->k = call->v = view(s, s.keys, s.heads_kv);
}

/// The makespan of a call, relative to the ideal, on threads of which the first is slower than the others.
template <class Pass>
double of_ideal(const Shape &s, int32_t threads, double slow = 2) {
  Clocks all(threads, slow);
  clocks = &all;
  Attention attention;
  attention.head_dim = attention.head_dim_v = 64;
  attention.mask = s.mask;
  attention.num_threads = threads;
  attention.parallel_for = Clocks::parallel_for;
  attention.parallel_for_user = &all;
  Pass call;
  call.attention = &attention;
  describe(s, &call);
  call.out = call.q;
  if constexpr (std::is_same_v<Pass, BackwardCall>) {
    call.lse = View{reinterpret_cast<char *>(nothing), {0, 0, 0, 0}, FA_F32};
    call.dout = call.dq = call.q;
    call.dk = call.dv = call.k;
  }
  in_default_state([&](CallerState &caller) {
    call.caller = &caller;
    EXPECT_EQ(std::unique_ptr<Engine>(create_engine(attention, kernels))->execute(call), FA_OK);
  });
  return all.of_ideal();
}

template <class Pass>
void expect_little(std::span<const Shape> shapes, std::initializer_list<int32_t> threads) {
  for (const Shape &s : shapes)
    for (const int32_t n : threads)
      EXPECT_LE(of_ideal<Pass>(s, n), 1.15)
          << s.batch << " x " << s.heads_q << " heads, " << s.queries << " x " << s.keys << ", " << n << " threads";
}

/// The items of prefill and of decode (BHSD and BSHD) are small enough to balance the load.
TEST(Makespan, OneWorkerAtHalfSpeedCostsLittle) {
  constexpr Shape shapes[] = {
      {1, 8, 8, 1024, 1024},
      {1, 8, 8, 1024, 1024, FA_MASK_CAUSAL},
      {4, 32, 8, 512, 512, FA_MASK_CAUSAL},
      {1, 32, 8, 1, 32768, FA_MASK_NONE, true},
      {32, 32, 8, 1, 2048, FA_MASK_NONE, true},
      {1, 32, 8, 1, 32768},
      {32, 32, 8, 1, 2048},
      {1, 32, 32, 1, 8192},
      {64, 8, 8, 1, 512},
  };
  expect_little<ForwardCall>(shapes, {3, 16});
}

constexpr Shape gradients[] = {
    {1, 3, 3, 1024, 1024},
    {1, 16, 16, 1024, 1024, FA_MASK_CAUSAL},
    {2, 32, 8, 768, 768, FA_MASK_CAUSAL},
    {1, 20, 5, 2048, 2048, FA_MASK_CAUSAL},
    {24, 8, 2, 256, 256},
};

/// All workers help to finish heads that one worker each began. More workers only help in long heads.
TEST(Makespan, OneWorkerAtHalfSpeedCostsGradientsLittle) {
  PairLog ignored;
  pair_log = &ignored;
  expect_little<BackwardCall>(gradients, {3});
  constexpr Shape long_ones[] = {{1, 16, 16, 2048, 2048}, {1, 16, 16, 2048, 2048, FA_MASK_CAUSAL}};
  expect_little<BackwardCall>(long_ones, {16});
}

void expect_same_order(const Shape &s, std::initializer_list<int32_t> threads, double slow = 2) {
  PairLog by_one;
  pair_log = &by_one;
  of_ideal<BackwardCall>(s, 1);
  for (const int32_t n : threads) {
    PairLog by_all;
    pair_log = &by_all;
    of_ideal<BackwardCall>(s, n, slow);
    EXPECT_EQ(by_one.of_queries, by_all.of_queries) << s.heads_q << " heads, " << n << " threads, " << slow;
    EXPECT_EQ(by_one.of_keys, by_all.of_keys) << s.heads_q << " heads, " << n << " threads, " << slow;
  }
}

/// Each pair of tiles is processed once, and each tile accumulates in one order, wherever a worker stopped in a head.
TEST(Makespan, OrderOfAccumulationIsFixedWhoeverFinishesAHead) {
  for (const Shape &s : gradients) expect_same_order(s, {2, 3, 5});
  // The remaining groups of keys are processed as groups or step by step.
  for (const double slow : {1.25, 1.5, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 50.0, 70.0})
    expect_same_order({1, 2, 2, 256, 8192}, {2}, slow);
}

}  // namespace
}  // namespace fa::cpu
