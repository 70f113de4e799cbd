// threads.*: the library's pool and the host's, nested and concurrent callers, fork, shutdown and reuse. Bits never
// change.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <thread>

#include "engine/target.h"
#include "reference/caller.h"
#include "reference/run.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

/// A host's parallel_for in several manners, that also checks its arguments.
struct Host {
  enum Manner { sequential, reversed, concurrent, from_a_thread } manner = sequential;
  int64_t most = 0;                               // fa_desc.num_threads
  const std::function<void()> *inside = nullptr;  // called between tasks
  std::atomic<int> calls = 0, too_many = 0;

  static void parallel_for(void *host, fa_task task, void *ctx, int64_t n) {
    Host &h = *static_cast<Host *>(host);
    ++h.calls;
    h.too_many += n > h.most || n < 0;
    const auto one = [&](int64_t i) {
      if (h.inside) (*h.inside)();
      task(ctx, i);
      if (h.inside) (*h.inside)();
    };
    std::vector<std::thread> threads;
    for (int64_t i = 0; i < n; ++i) {
      if (h.manner == concurrent) threads.emplace_back(one, i);
      if (h.manner == sequential) one(i);
      if (h.manner == reversed) one(n - 1 - i);
    }
    if (h.manner == from_a_thread) {
      threads.emplace_back([&] {
        for (int64_t i = 0; i < n; ++i) one(i);
      });
    }
    for (std::thread &thread : threads) thread.join();
  }
};

class Threads : public EngineTest {
 protected:
  static std::vector<Case> cases() {
    Case prefill;
    prefill.b = 2, prefill.sq = 130, prefill.sk = 200, prefill.hq = 4, prefill.hkv = 2, prefill.d = 32,
    prefill.mask = FA_MASK_CAUSAL;
    Case decode = prefill;
    decode.sq = 1, decode.sk = 2000, decode.splits = 4;
    return {prefill, decode};
  }

  /// The bits of the case on one thread.
  std::unique_ptr<Instance> reference(Case c) {
    c.threads = 1;
    auto instance = std::make_unique<Instance>(c);
    const Op op(instance->desc, kernel);
    EXPECT_EQ(forward(op, *instance), FA_OK) << fa_last_error();
    return instance;
  }
};

// [F84] [F85]
TEST_P(Threads, HostsPool) {
  for (Case c : cases()) {
    const auto expected = reference(c);
    for (const Host::Manner manner : {Host::sequential, Host::reversed, Host::concurrent, Host::from_a_thread}) {
      for (const int32_t threads : {1, 2, 7}) {
        Host host;
        host.manner = manner;
        host.most = c.threads = threads;
        Instance instance(c);
        instance.desc.parallel_for = Host::parallel_for;
        instance.desc.parallel_for_user = &host;
        const Op op(instance.desc, kernel);
        ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error();
        EXPECT_EQ(same_outputs(*expected, instance, kernel), "") << "manner " << manner << ", threads " << threads;
        EXPECT_EQ(host.too_many, 0) << "n is above num_threads";
        EXPECT_TRUE(threads == 1 || host.calls > 0) << "the host's pool was not used";
      }
    }
  }
}

TEST_P(Threads, NestedCallers) {
  for (Case c : cases()) {
    const auto expected = reference(c);
    c.threads = 2;
    const Instance inner(c);
    const Op inner_op(inner.desc, kernel);
    std::atomic<int> inner_calls = 0, inner_failures = 0;
    // Each nested call writes a separate output.
    const std::function<void()> nested = [&] {
      const Caller caller("");  // the outer call does not see exceptions of its arithmetic
      const Instance own(c);
      inner_failures += fa_forward(inner_op.get(), &own.args) != FA_OK || !same_outputs(*expected, own, kernel).empty();
      ++inner_calls;
    };
    for (const Host::Manner manner : {Host::sequential, Host::concurrent}) {
      Host host;
      host.manner = manner;
      host.most = 2;
      host.inside = &nested;
      Instance outer(c);
      outer.desc.parallel_for = Host::parallel_for;
      outer.desc.parallel_for_user = &host;
      const Op op(outer.desc, kernel);
      ASSERT_EQ(forward(op, outer), FA_OK) << fa_last_error();
      EXPECT_EQ(same_outputs(*expected, outer, kernel), "");
    }
    EXPECT_GT(inner_calls, 0);
    EXPECT_EQ(inner_failures, 0);
  }
}

// [F51]
TEST_P(Threads, ConcurrentCallersOfOneOp) {
  constexpr int callers = 4;
  const int rounds = slow ? 3 : 12;
  for (Case c : cases()) {
    const auto expected = reference(c);
    c.threads = 2;
    const Instance shape(c);
    const Op op(shape.desc, kernel);
    std::atomic<int> failures = 0;
    std::vector<std::thread> threads;
    for (int caller = 0; caller < callers; ++caller) {
      threads.emplace_back([&] {
        const Instance own(c);
        for (int round = 0; round < rounds; ++round) {
          own.clear_outputs();
          failures += fa_forward(op.get(), &own.args) != FA_OK || !same_outputs(*expected, own, kernel).empty();
        }
      });
    }
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(failures, 0);
  }
}

// [F51]
TEST_P(Threads, EveryCallFromAnyThread) {
  const Case c = cases()[0];
  const auto expected = reference(c);
  setenv("FA_FORCE_KERNEL", kernel.c_str(), 1);
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int caller = 0; caller < 4; ++caller) {
    threads.emplace_back([&, caller] {
      for (int round = 0; round < 4; ++round) {
        Case mine = c;
        mine.threads = 1 + (caller + round) % 3;
        const Instance own(mine);
        fa_op *op = nullptr;
        const bool good = fa_create(&own.desc, &op) == FA_OK && fa_forward(op, &own.args) == FA_OK;
        failures += !good || !same_outputs(*expected, own, kernel).empty();
        fa_destroy(op);
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

// [F153]
TEST_P(Threads, ShutdownAndReuse) {
  Case c = cases()[0];
  const auto expected = reference(c);
  c.threads = 3;
  const Instance instance(c);
  const Op op(instance.desc, kernel);
  fa_shutdown();
  for (int round = 0; round < 4; ++round) {
    instance.clear_outputs();
    ASSERT_EQ(fa_forward(op.get(), &instance.args), FA_OK) << fa_last_error();
    EXPECT_EQ(same_outputs(*expected, instance, kernel), "");
    fa_shutdown();
    fa_shutdown();
  }
}

/// Why a process with threads cannot be forked here, if so.
const char *cannot_fork() {
  if (thread_sanitizer) return "ThreadSanitizer does not follow a fork of a process with threads";
  if (emulated)
    return "neither qemu-user (its own assertions fail) nor valgrind follows a fork of a process with threads";
  return nullptr;
}

/// Runs check in a child process; true when it returned true there within its time.
bool in_child(const std::function<bool()> &check) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(check() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST_P(Threads, ForkWithARunningPool) {
  if (const char *why = cannot_fork()) GTEST_SKIP() << why;
  Case c = cases()[0];
  const auto expected = reference(c);
  c.threads = 3;
  const Instance instance(c);
  const Op op(instance.desc, kernel);
  ASSERT_EQ(fa_forward(op.get(), &instance.args), FA_OK) << fa_last_error();
  const auto forward_again = [&] {
    for (int round = 0; round < 3; ++round) {
      instance.clear_outputs();
      if (fa_forward(op.get(), &instance.args) != FA_OK || !same_outputs(*expected, instance, kernel).empty())
        return false;
    }
    return threads_of_this_process() > 1;  // its own: a child has no threads of its parent
  };
  EXPECT_TRUE(in_child([&] { return forward_again() && in_child(forward_again); })) << "in the child, or its child";
  EXPECT_TRUE(in_child([&] {
    fa_shutdown();
    return forward_again();
  }));
  EXPECT_TRUE(forward_again()) << "in the parent afterwards";
}

TEST_P(Threads, ForkWhileAnotherThreadComputes) {
  if (const char *why = cannot_fork()) GTEST_SKIP() << why;
  Case c = cases()[0];
  const auto expected = reference(c);
  c.threads = 3;
  const Instance busy(c), own(c);
  const Op op(own.desc, kernel);
  // All calls have separate workspaces: no thread may hold the allocator's lock when the process forks, which the
  // sanitizers' allocators would hold in the child for ever.
  fa_forward_args args = own.args, busy_args = busy.args;
  ASSERT_EQ(fa_forward_workspace_size(op.get(), &args, &args.workspace_size), FA_OK);
  const size_t bytes = (args.workspace_size + 255) / 256 * 256;
  const GuardedMemory workspace(bytes, Guard::end), busy_workspace(bytes, Guard::end);
  args.workspace = bytes ? workspace.data() : nullptr;
  busy_args.workspace = bytes ? busy_workspace.data() : nullptr;
  busy_args.workspace_size = args.workspace_size;
  ASSERT_EQ(fa_forward(op.get(), &busy_args), FA_OK) << fa_last_error();  // the pool has its threads
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) fa_forward(op.get(), &busy_args);
  });
  for (int round = 0; round < 8; ++round) {
    own.clear_outputs();
    EXPECT_TRUE(in_child([&] {
      return fa_forward(op.get(), &args) == FA_OK && same_outputs(*expected, own, kernel).empty();
    })) << "fork "
        << round;
  }
  stop = true;
  other.join();
}

TEST_P(Threads, MoreThreadsThanWork) {
  Case c = cases()[1];
  c.sq = c.sk = 1;
  const auto expected = reference(c);
  c.threads = FA_MAX_THREADS;
  const Instance instance(c);
  const Op op(instance.desc, kernel);
  ASSERT_EQ(fa_forward(op.get(), &instance.args), FA_OK) << fa_last_error();
  EXPECT_EQ(same_outputs(*expected, instance, kernel), "");
}

TEST_TARGETS(Threads, {"f32"});

}  // namespace
}  // namespace test
