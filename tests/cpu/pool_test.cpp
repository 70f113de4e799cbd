// The pool from inside: every task once, threads that are kept, take no signals, come too late without harm, and end.
#include "cpu/pool.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reference/sanitizer.h"

namespace fa::cpu {
namespace {

/// The threads of this process, by their numbers, once they stay as they are: Linux lists a thread that has been joined
/// for a moment longer.
std::set<std::string> threads() {
  std::set<std::string> numbers, before;
  do {
    before = std::exchange(numbers, {});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (const auto &entry : std::filesystem::directory_iterator("/proc/self/task"))
      numbers.insert(entry.path().filename());
  } while (numbers != before);
  return numbers;
}

/// The blocked signals of a thread, bit n - 1 for signal n.
uint64_t blocked_signals(const std::string &thread) {
  std::ifstream status("/proc/self/task/" + thread + "/status");
  for (std::string word; status >> word;)
    if (word == "SigBlk:" && status >> word) return std::stoull(word, nullptr, 16);
  ADD_FAILURE() << "/proc has no SigBlk of thread " << thread;
  return 0;
}

/// How often each task ran, and whether the call that they belong to has returned.
struct Round {
  explicit Round(int64_t n) : runs(size_t(n)) {}
  std::vector<std::atomic<int>> runs;
  std::atomic<bool> over = false;
  std::atomic<int> late = 0;

  static void task(void *ctx, int64_t i) {
    Round &round = *static_cast<Round *>(ctx);
    round.late += round.over;
    ++round.runs[size_t(i)];
  }

  bool right() const {
    for (const auto &count : runs)
      if (count != 1) return false;
    return late == 0;
  }
};

class Pool : public testing::Test {
 protected:
  /// A sanitizer's own thread comes with the first one of the program.
  Pool() {
    std::thread([] {}).join();
    others = threads().size();
  }
  ~Pool() override { shutdown_pool(); }

  size_t others;  // threads that are not the pool's
};

TEST_F(Pool, RunsEveryTaskOnce) {
  for (const int64_t n : {0, 1, 2, 3, 7, 100, 5, 2}) {
    Round round(n);
    run_in_pool(Round::task, &round, n);
    EXPECT_TRUE(round.right()) << n;
  }
}

// [F152]
TEST_F(Pool, KeepsItsThreadsAndEndsThem) {
  for (int turn = 0; turn < 3; ++turn) {
    for (const int64_t n : {1, 2, 4, 3, 4}) {
      Round round(n);
      run_in_pool(Round::task, &round, n);
    }
    EXPECT_EQ(threads().size(), others + 3) << "one less than four tasks, besides the caller's";
    shutdown_pool();
    EXPECT_EQ(threads().size(), others);
    shutdown_pool();
  }
}

TEST_F(Pool, OfOneTaskHasNoThreads) {
  Round round(1);
  run_in_pool(Round::task, &round, 1);
  EXPECT_EQ(threads().size(), others);
}

/// A signal to the process must reach one of the host's threads.
TEST_F(Pool, TakesNoSignals) {
  if (reference::emulated) GTEST_SKIP() << "Linux knows the emulator's threads";
  const std::set<std::string> before = threads();
  const std::string self = std::to_string(getpid());
  sigset_t one, usual;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR2);
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &one, &usual), 0);
  Round round(4);
  run_in_pool(Round::task, &round, 4);
  EXPECT_EQ(blocked_signals(self), uint64_t{1} << (SIGUSR2 - 1)) << "of the caller's thread";
  EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &usual, nullptr), 0);
  int ours = 0;
  for (const std::string &thread : threads()) {
    if (before.count(thread)) continue;
    ++ours;
    for (int number = 1; number <= SIGRTMAX; ++number) {
      if (number == SIGKILL || number == SIGSTOP || (number > 31 && number < SIGRTMIN)) continue;
      EXPECT_TRUE(blocked_signals(thread) >> (number - 1) & 1) << "signal " << number;
    }
  }
  EXPECT_EQ(ours, 3);
}

/// Who finds it busy does without: all tasks on the caller's own thread, one after another.
TEST_F(Pool, ThatIsBusyLeavesItsCallerAlone) {
  struct Nested {
    std::thread::id caller;
    int64_t next = 0;
    bool in_order = true;
    static void task(void *ctx, int64_t i) {
      Nested &self = *static_cast<Nested *>(ctx);
      self.in_order &= i == self.next++ && std::this_thread::get_id() == self.caller;
    }
  };
  std::atomic<int> wrong = 0;
  const auto outer = [](void *ctx, int64_t) {
    Nested nested;
    nested.caller = std::this_thread::get_id();
    run_in_pool(Nested::task, &nested, 5);
    *static_cast<std::atomic<int> *>(ctx) += !nested.in_order || nested.next != 5;
  };
  run_in_pool(outer, &wrong, 3);
  EXPECT_EQ(wrong, 0);
}

/// Tasks so short that threads come when all is done, at the call's end, or with the next one.
TEST_F(Pool, ClosesARoundBeforeItsCallerReturns) {
  const int rounds = reference::slow ? 2000 : 40000;
  for (int i = 0; i < rounds; ++i) {
    Round round(2 + i % 3);
    run_in_pool(Round::task, &round, int64_t(round.runs.size()));
    round.over = true;
    ASSERT_TRUE(round.right()) << i;
    if (i % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(150));  // they fall asleep
  }
}

}  // namespace
}  // namespace fa::cpu
