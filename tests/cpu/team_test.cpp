// A team's items: each is processed once, for any number and order of threads, and by the same worker in every loop
// unless that worker is late.
#include "cpu/team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "core/thread_state.h"

namespace fa::cpu {
namespace {

/// Runs tasks one after another, last first where asked: the first ones do all the work.
struct Host {
  bool backwards = false;

  static void run(void *host, fa_task task, void *ctx, int64_t n) {
    for (int64_t i = 0; i < n; ++i) task(ctx, static_cast<Host *>(host)->backwards ? n - 1 - i : i);
  }
};

TEST(ThreadTeam, TakesEachItemOnceOnItsOwn) {
  for (const bool backwards : {false, true}) {
    Host host{backwards};
    Attention attention;
    attention.parallel_for = Host::run;
    attention.parallel_for_user = &host;
    for (int64_t workers = 1; workers <= 5; ++workers) {
      std::vector<WorkStealingQueue> queues(workers);
      in_default_state([&](CallerState &state) {
        const ThreadTeam team(attention, &state, workers, queues.data());
        for (int64_t items = 0; items <= 13; ++items) {
          std::vector<int> taken(items);
          team.parallel_for(items, [&](int64_t, int64_t item) { ++taken.at(item); });
          EXPECT_EQ(std::count(taken.begin(), taken.end(), 1), items) << workers << " workers";
        }
      });
    }
  }
}

TEST(ThreadTeam, TakesItsOwnFromTheFrontAndOthersFromTheBack) {
  Host host{true};
  Attention attention;
  attention.parallel_for = Host::run;
  attention.parallel_for_user = &host;
  std::vector<WorkStealingQueue> queues(3);
  std::vector<int64_t> order;
  in_default_state([&](CallerState &state) {
    ThreadTeam(attention, &state, 3, queues.data()).parallel_for(9, [&](int64_t worker, int64_t item) {
      EXPECT_EQ(worker, 2);
      order.push_back(item);
    });
  });
  EXPECT_EQ(order, (std::vector<int64_t>{6, 7, 8, 2, 1, 0, 5, 4, 3}));
}

/// Two threads in lockstep get half of the items each, adjacent ones, and the same ones in every loop.
TEST(ThreadTeam, KeepsToItsOwnWhereAllKeepStep) {
  Attention attention;
  std::vector<WorkStealingQueue> queues(2);
  const ThreadTeam team(attention, nullptr, 2, queues.data());
  for (int step = 0; step < 20; ++step) {
    std::vector<int64_t> worker_of(8);
    std::atomic<int> come{0};
    team.parallel_for(8, [&](int64_t worker, int64_t item) {
      const int mine = come.fetch_add(1) / 2 * 2 + 2;
      while (come.load() < mine) {
      }
      worker_of[item] = worker;
    });
    EXPECT_EQ(worker_of, (std::vector<int64_t>{0, 0, 0, 0, 1, 1, 1, 1}));
  }
}

/// Workers that compete for the last items.
TEST(ThreadTeam, TakesEachItemOnceTogether) {
  Attention attention;
  std::vector<WorkStealingQueue> queues(4);
  const ThreadTeam team(attention, nullptr, 4, queues.data());
  for (int step = 0; step < 200; ++step) {
    const int64_t items = 4 + step % 61;
    std::vector<std::atomic<int>> taken(items);
    team.parallel_for(items, [&](int64_t, int64_t item) { ++taken.at(item); });
    for (int64_t i = 0; i < items; ++i) EXPECT_EQ(taken[i], 1) << i << " of " << items;
  }
}

}  // namespace
}  // namespace fa::cpu
