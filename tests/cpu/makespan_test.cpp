// How evenly a call's work is shared out, in virtual time: kernels that compute nothing and take as long as they have
// scores, on threads of which one takes twice as long. What is held against the ideal is when the last of them ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/thread_state.h"
#include "cpu/engine.h"

namespace fa::cpu {
namespace {

/// The clocks of a host's threads. A thread that has spent time waits until no other is behind it, so they take work in
/// the order in which threads of such speeds would.
class Clocks {
 public:
  explicit Clocks(int64_t threads) : clocks_(size_t(threads)), at_work_(size_t(threads)) {}

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
    clocks_[size_t(self)] += self == 0 ? 2 * time : time;
    wait(&lock);
  }

  /// When the last thread ended, of the time that all of them would take if none had ever to wait.
  double of_ideal() const { return now_ / (work_ / (double(clocks_.size()) - 0.5)); }

 private:
  void run(fa_task task, void *ctx, int64_t n) {
    std::fill(clocks_.begin(), clocks_.end(), now_);
    std::fill(at_work_.begin(), at_work_.begin() + n, true);
    std::vector<std::thread> threads;
    for (int64_t i = 0; i < n; ++i)
      threads.emplace_back([=, this] {
        self = i;
        spend(0);
        task(ctx, i);
        const std::lock_guard<std::mutex> lock(mutex_);
        at_work_[size_t(i)] = false;
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
        if (at_work_[i] && before) return false;
      }
      return true;
    });
  }

  static thread_local int64_t self;

  std::mutex mutex_;
  std::condition_variable turn_;
  std::vector<double> clocks_;
  std::vector<char> at_work_;
  double now_ = 0, work_ = 0;
};

thread_local int64_t Clocks::self = -1;

Clocks *clocks = nullptr;

/// Pairs of a query and a key that it attends, of these keys.
double scores(const Tile &tile, int64_t begin, int64_t end) {
  int64_t count = 0;
  for (int i = 0; i < tile.rows; ++i)
    count += std::max<int64_t>(std::min<int64_t>(end, tile.row[i].high) - std::max<int64_t>(begin, tile.row[i].low), 0);
  return double(count);
}

void attend(const Tile &tile, int64_t begin, int64_t end, const Partial &partial, void *) {
  std::fill_n(partial.max, tile.rows, 0.0f);
  std::fill_n(partial.sum, tile.rows, 1.0f);
  std::fill_n(partial.values, tile.rows * tile.attention->head_dim_v, 0.0f);
  clocks->spend(scores(tile, begin, end));
}

constexpr Scheme schemes[] = {
    {.tile_rows = 16,
     .many_tiles = false,
     .many_heads = true,
     .any_stride = true,
     .serves = [](const Attention &attention) { return !attention.batch_invariant; },
     .scratch = [](const Attention &, int) { return size_t{64}; },
     .attend = attend,
     .attend_whole = nullptr},
    {.tile_rows = 48,
     .many_tiles = true,
     .many_heads = false,
     .any_stride = true,
     .serves = [](const Attention &) { return true; },
     .scratch = [](const Attention &, int) { return size_t{64}; },
     .attend = attend,
     .attend_whole = nullptr},
};

constexpr Kernels kernels = {
    .schemes = schemes,
    .scheme_count = 2,
    .merge = [](const Tile &, const Partial &, const Partial &) {},
    .finish = [](const Tile &, const Partial &) {},
    .backward = nullptr,
};

struct Shape {
  int64_t batch, heads_q, heads_kv, queries, keys;
  fa_mask mask = FA_MASK_NONE;
  bool heads_apart = false;  // BHSD
};

/// Of a call on so many threads, of which the first has half the speed of the others.
double of_ideal(const Shape &s, int32_t threads) {
  Clocks all(threads);
  clocks = &all;
  Attention attention;
  attention.head_dim = attention.head_dim_v = 64;
  attention.mask = s.mask;
  attention.num_threads = threads;
  attention.parallel_for = Clocks::parallel_for;
  attention.parallel_for_host = &all;
  static char nothing;
  const auto view = [&](int64_t rows, int64_t heads) {
    const int64_t row = s.heads_apart ? 256 : heads * 256, head = s.heads_apart ? rows * 256 : 256;
    return View{&nothing, {rows * heads * 256, row, head, 4}, FA_F32};
  };
  Problem call;
  call.attention = &attention;
  call.batch = call.batch_k = s.batch;
  call.heads_q = s.heads_q, call.heads_kv = s.heads_kv;
  call.rows_q = call.max_seqlen_q = s.queries;
  call.rows_k = call.max_seqlen_k = s.keys;
  call.q = call.out = view(s.queries, s.heads_q);
  call.k = call.v = view(s.keys, s.heads_kv);
  in_default_state([&](HostState &host) {
    call.host = &host;
    EXPECT_EQ(CpuEngine(attention, kernels).compute(call), FA_OK);
  });
  return all.of_ideal();
}

/// Prefill, and decode whose heads are apart in memory, are cut finely enough and taken as workers come.
TEST(Makespan, OneWorkerAtHalfSpeedCostsLittle) {
  const Shape shapes[] = {
      {1, 8, 8, 1024, 1024},
      {1, 8, 8, 1024, 1024, FA_MASK_CAUSAL},
      {4, 32, 8, 512, 512, FA_MASK_CAUSAL},
      {1, 32, 8, 1, 32768, FA_MASK_NONE, true},
      {32, 32, 8, 1, 2048, FA_MASK_NONE, true},
  };
  for (const Shape &s : shapes)
    for (const int32_t threads : {3, 16})
      EXPECT_LE(of_ideal(s, threads), 1.15) << s.batch << " x " << s.heads_q << " heads, " << s.queries << " x "
                                            << s.keys << ", " << threads << " threads";
}

}  // namespace
}  // namespace fa::cpu
