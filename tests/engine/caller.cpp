// caller.*: the floating-point environment of the thread that calls, or lends itself, changes no bit, and is as it was
// after the call, exception flags included; so is errno.
#include "reference/caller.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/target.h"
#include "reference/gpu.h"
#include "reference/run.h"

namespace test {
using namespace reference;
namespace {

/// Threads of the host's, born in the environment of the call, and the calling thread: all of them find it as it was.
struct Host {
  std::string fenv;
  std::atomic<int> calls = 0, elsewhere = 0, changed = 0;

  static void parallel_for(void *self, fa_task task, void *ctx, int64_t n) {
    Host &host = *static_cast<Host *>(self);
    ++host.calls;
    host.elsewhere += !other_caller_than(host.fenv).empty();
    const auto one = [&](int64_t i) {
      const Caller caller(host.fenv);
      task(ctx, i);
      host.changed += !caller.changed().empty();
    };
    std::vector<std::thread> threads;
    for (int64_t i = 1; i < n; ++i) threads.emplace_back(one, i);
    one(0);
    for (std::thread &thread : threads) thread.join();
  }
};

class CallersEnvironment : public EngineTest {
 protected:
  /// Scores, weights and gradients that are subnormal, rounded, or overflow on the way, in every part of the engine.
  std::vector<Case> cases() const {
    std::vector<Case> list;
    const auto add = [&](auto change) {
      Case c;
      c.b = 2, c.sq = 40, c.sk = 70, c.hq = 2, c.hkv = 1, c.d = has_wide_family() ? 64 : 33;
      change(&c);
      list.push_back(typed(c, list.size()));
    };
    add([](Case *c) { c->softcap = 7, c->sinks = "h"; });
    add([](Case *c) { c->mask = FA_MASK_CAUSAL, c->bias = "f32:bhqk", c->padded = true; });
    add([](Case *c) { c->amp = 1e-20, c->k_amp = 1e-20, c->v_amp = 1e-38, c->alibi = "h"; });
    add([](Case *c) { c->amp = 30, c->flags = FA_FLAG_BATCH_INVARIANT; });
    add([](Case *c) { c->sq = 1, c->sk = 1500; });
    add([](Case *c) { c->sq = 3, c->sk = 300, c->splits = 3, c->special = true; });
    return shard_of(list);
  }

  std::vector<Case> gradient_cases() const {
    std::vector<Case> list = cases();
    for (Case &c : list) {
      c.backward = true, c.splits = 0;
      c.dlse = true;
      if (!c.bias.empty()) c.dbias = "hqk";
      if (!c.sinks.empty()) c.dsinks = "h";
      if (c.v_amp != 1) c.dout_amp = 1e-20;
    }
    return list;
  }

  fa_status run(const Instance &instance) const {
    const Op op(instance.desc, kernel, instance.c.fenv);
    return op ? forward(op, instance) : op.status();
  }
  fa_status run(const BackwardInstance &instance) const {
    const Op op(instance.desc, kernel, instance.c.fenv);
    return op ? backward(op, instance) : op.status();
  }
  std::string same(const Instance &a, const Instance &b) const { return same_outputs(a, b, kernel); }
  std::string same(const BackwardInstance &a, const BackwardInstance &b) const { return same_gradients(a, b, kernel); }

  /// The bits of a call in the default environment, again in each other one: on the caller's thread, on the library's
  /// and on the host's.
  template <class Built>
  void expect_the_same_bits(const Case &c) {
    const Built expected(c);
    ASSERT_EQ(run(expected), FA_OK) << repeat_line(c, kernel);
    for (const std::string &fenv : float_environments()) {
      Case there = c;
      there.fenv = fenv;
      fa_shutdown();  // so that the library's threads are born there
      for (const int32_t threads : {1, 3}) {
        there.threads = threads, there.workspace = threads == 3;
        const Built instance(there);
        ASSERT_EQ(run(instance), FA_OK) << repeat_line(there, kernel);
        ASSERT_EQ(same(expected, instance), "");
      }
      if (is_gpu(kernel)) continue;
      Host host{fenv};
      Built instance(there);
      instance.desc.parallel_for = Host::parallel_for;
      instance.desc.parallel_for_user = &host;
      ASSERT_EQ(run(instance), FA_OK) << repeat_line(there, kernel);
      ASSERT_EQ(same(expected, instance), "") << "on the host's threads";
      EXPECT_GT(host.calls, 0);
      EXPECT_EQ(host.elsewhere, 0) << "parallel_for did not have its caller's environment: " << fenv;
      EXPECT_EQ(host.changed, 0) << "tasks changed the state of the host's threads: " << fenv;
    }
  }
};

// [F195] [F196]
TEST_P(CallersEnvironment, ChangesNoBitAndStays) {
  for (const Case &c : cases()) expect_the_same_bits<Instance>(c);
}

// [F195] [F196]
TEST_P(CallersEnvironment, ChangesNoBitOfGradientsAndStays) {
  for (const Case &c : gradient_cases()) expect_the_same_bits<BackwardInstance>(c);
}

TEST_ALL_TARGETS(CallersEnvironment, all_types);

}  // namespace
}  // namespace test
