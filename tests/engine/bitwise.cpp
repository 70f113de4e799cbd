// bitwise.*: the same bits from run to run, for every number of threads, and whatever the workspace held.
#include <gtest/gtest.h>

#include "engine/target.h"
#include "reference/run.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

class Bitwise : public EngineTest {
 protected:
  void run(const Instance &instance, int fill = 0xff) {
    const Op op(instance.desc, kernel);
    ASSERT_EQ(forward(op, instance, fill), FA_OK) << fa_last_error() << "\n" << repeat_line(instance.c, kernel);
  }

  /// Calls that an engine spreads over threads in different ways.
  std::vector<Case> cases() const {
    std::vector<Case> list;
    const auto add = [&](auto change) {
      Case c;
      c.b = 2, c.sq = 150, c.sk = 300, c.hq = 2, c.hkv = 1, c.d = has_wide_family() ? 64 : 32;
      change(&c);
      list.push_back(typed(c, list.size()));
    };
    add([](Case *) {});
    add([](Case *c) { c->mask = FA_MASK_CAUSAL; });
    add([](Case *c) { c->sq = 1, c->sk = slow ? 1000 : 5000; });
    add([](Case *c) { c->b = 1, c->sq = 2, c->sk = 2500, c->hq = 2; });
    add([](Case *c) { c->b = 1, c->sq = 1, c->sk = 2500, c->hq = 12, c->hkv = 4; });
    add([](Case *c) { c->sq = 3, c->sk = 1000, c->splits = 7; });
    add([](Case *c) { c->sq = 70, c->splits = 5, c->sinks = "h"; });
    add([](Case *c) { c->b = 4, c->cu_q = c->cu_k = true, c->mask = FA_MASK_CAUSAL; });
    add([](Case *c) { c->b = 3, c->sq = 1, c->page = 16, c->used_k = true; });
    add([](Case *c) { c->flags = FA_FLAG_BATCH_INVARIANT; });
    if (kernel.starts_with("cpu."))  // tiles of 256 to 1,024 rows, by the number of threads
      add([](Case *c) { c->sq = c->sk = 600, c->hq = 8, c->window_left = 50, c->mask = FA_MASK_CAUSAL; });
    if (kernel.starts_with("cpu.") && !slow) add([](Case *c) { c->sq = 600, c->sk = 1100, c->hq = c->hkv = 8; });
    return shard_of(list);
  }
};

// [F52]
TEST_P(Bitwise, RerunAndNumberOfThreads) {
  for (const Case &c : cases()) {
    const Instance first(c);
    run(first);
    Instance again(c);
    for (const int32_t threads : {1, 2, 2, 3, 8}) {
      again.c.threads = again.desc.num_threads = threads;
      again.clear_outputs();
      run(again);
      ASSERT_EQ(same_outputs(first, again, kernel), "");
    }
  }
}

// [F109] [F135]
TEST_P(Bitwise, ContentsOfTheWorkspace) {
  for (const Case &c : cases()) {
    const Instance without(c);
    run(without);
    Instance with(c);
    with.c.workspace = true;
    for (const int32_t threads : {1, 2}) {
      with.c.threads = with.desc.num_threads = threads;
      for (const int fill : {0, 0xff, 0x3f}) {
        with.clear_outputs();
        run(with, fill);
        ASSERT_EQ(same_outputs(without, with, kernel), "") << "workspace full of " << fill;
      }
    }
  }
}

TEST_ALL_TARGETS(Bitwise, all_types);

}  // namespace
}  // namespace test
