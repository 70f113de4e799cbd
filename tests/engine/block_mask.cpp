// block_mask.*: boolean masks and biases of -inf that hide whole blocks of pairs, which kernels may skip. No result
// depends on it, and where a device counts, hidden keys and values are not fetched.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "engine/counted.h"
#include "engine/target.h"
#include "reference/compare_gradients.h"
#include "reference/run.h"

namespace test {
using namespace reference;
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Whether query i attends key j.
using Attends = std::function<bool(int64_t i, int64_t j)>;

/// Key blocks that no query of a block attends, at the end, at the beginning and in between.
bool in_blocks(int64_t i, int64_t j) {
  return j % 8400 / 130 == 1 + i / 50 % 2;
}

/// The boolean mask, or the bias: of a repeated row or column the first one counts.
void hide(const Instance &instance, const Attends &attends) {
  instance.mask.each([&](int64_t b, int64_t h, int64_t i, int64_t j, int64_t) {
    instance.mask.set(b, h, i, j, attends(i, j) ? 1 : 0);
  });
  instance.bias.each([&](int64_t b, int64_t h, int64_t i, int64_t j, int64_t) {
    instance.bias.set(b, h, i, j, attends(i, j) ? 0.25 * double((i + j) % 5) : -infinity);
  });
}

class BlockMask : public EngineTest {
 protected:
  static Case base() {
    Case c;
    c.sq = 100, c.sk = 400, c.hq = 2, c.hkv = 1, c.d = 64, c.boolmask = "qk";
    return c;
  }

  /// Calls of each kind of kernel: whole rows, packed heads, splits, few rows, pages, other strides.
  std::vector<Case> cases() const {
    std::vector<Case> list;
    const auto add = [&](auto change) {
      Case c = base();
      change(&c);
      list.push_back(typed(c, list.size()));
    };
    add([](Case *) {});
    add([](Case *c) { c->boolmask = "k"; });
    add([](Case *c) { c->boolmask = "bhqk", c->b = 2, c->sinks = "h"; });
    add([](Case *c) { c->boolmask = "", c->bias = "f32:qk"; });
    add([](Case *c) { c->boolmask = "", c->bias = "f16:hqk", c->softcap = 5; });
    add([](Case *c) { c->boolmask = "", c->bias = "bf16:k"; });
    add([](Case *c) { c->bias = "f32:k", c->mask = FA_MASK_CAUSAL; });
    add([](Case *c) { c->sq = 1; });
    add([](Case *c) {
      c->sq = 1, c->sk = 17000, c->splits = 2, c->boolmask = "k";
    });  // more tiles than are noted at once, and some of another split
    add([](Case *c) { c->sq = 3, c->hq = 4, c->boolmask = "hqk"; });
    add([](Case *c) { c->sq = 20, c->splits = 3; });
    add([](Case *c) { c->page = 16, c->sq = 40, c->sk = 640, c->splits = 1; });
    add([](Case *c) { c->page = 7, c->used_k = true, c->b = 2; });
    add([](Case *c) { c->sk = 401, c->v_layout = Layout::bhsd; });
    add([](Case *c) { c->cu_q = c->cu_k = true, c->b = 3, c->window_left = 200; });
    return list;
  }

  /// Most rows attend nothing: of the first block of queries the first ones do, of the others one of the last.
  static bool in_odd_rows(int64_t i, int64_t j) { return i % 2 && (i < 20 || i > 97) && in_blocks(i, j); }
  /// Masked blocks are between attended ones.
  static bool far_apart(int64_t, int64_t j) { return j % 150 < 20; }
  static bool nowhere(int64_t, int64_t) { return false; }
};

/// [F204]
TEST_P(BlockMask, ResultsAreRight) {
  for (const Case &c : cases()) {
    for (const auto &attends : {in_blocks, in_odd_rows, nowhere, far_apart}) {
      if (attends == far_apart && c.page == 0) continue;  // pages are looked up ahead
      const Instance instance(c);
      hide(instance, attends);
      const Op op(instance.desc, kernel);
      ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error() << "\n" << repeat_line(c, kernel);
      ASSERT_EQ(compare(instance, Expected(instance)), "") << repeat_line(c, kernel);
    }
  }
}

/// A last row that attends everything leaves no block hidden; the others have the same bits with it and without.
/// [F204]
TEST_P(BlockMask, NoBitDependsOnIt) {
  for (const uint32_t flags : {0u, uint32_t{FA_FLAG_BATCH_INVARIANT}}) {
    for (const bool by_bias : {false, true}) {
      Case c = typed(base());
      c.flags = flags;
      if (by_bias) c.boolmask = "", c.bias = "f32:qk";
      const Instance skips(c), shows(c);
      hide(skips, in_blocks);
      hide(shows, [&](int64_t i, int64_t j) { return i % 16 == 15 || in_blocks(i, j); });
      for (const Instance *instance : {&skips, &shows}) {
        const Op op(instance->desc, kernel);
        ASSERT_EQ(forward(op, *instance), FA_OK) << fa_last_error() << "\n" << repeat_line(c, kernel);
      }
      skips.out.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) {
        if (i % 16 == 15) return;
        ASSERT_EQ(skips.out.get(b, i, h, d), shows.out.get(b, i, h, d)) << "query " << i << "\n"
                                                                        << repeat_line(c, kernel);
      });
    }
  }
}

/// Keys and values of hidden blocks may hold anything. [F204]
TEST_P(BlockMask, HiddenBlocksAreNotSeen) {
  Case c = typed(base());
  c.boolmask = "k";
  const Instance instance(c);
  const auto attends = [](int64_t, int64_t j) { return j / 130 == 2; };
  hide(instance, attends);
  for (const Tensor *t : {&instance.k, &instance.v})
    t->each([&](int64_t b, int64_t j, int64_t h, int64_t d, int64_t) {
      if (!attends(0, j)) t->set(b, j, h, d, d % 2 ? nan : infinity);
    });
  const Op op(instance.desc, kernel);
  ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error();
  EXPECT_EQ(compare(instance, Expected(instance)), "");
}

class CheckedBlockMask : public BlockMask {};
class CountedBlockMask : public BlockMask {};

/// For the emulator with all its checks: of each kind of kernel a call.
TEST_P(CheckedBlockMask, HiddenBlocks) {
  const std::vector<Case> all = cases();
  for (Case c : {all[0], all[7], all[10], all[11]}) {
    c.sq = std::min<int64_t>(c.sq, 40), c.hq = 1;
    const Instance instance(c);
    hide(instance, in_blocks);
    const Op op(instance.desc, kernel);
    ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error() << "\n" << repeat_line(c, kernel);
    EXPECT_EQ(compare(instance, Expected(instance)), "") << repeat_line(c, kernel);
  }
}

/// The emulator's counts of a call's launches.
struct Counts {
  double instructions = 0, bytes_read = 0;
};

/// 64 keys of 512 or of 4096 are attended: the work is that of 64 keys and a scan of the mask. [F204]
TEST_P(CountedBlockMask, HiddenBlocksAreNotFetched) {
  if (!LaunchCounts::available()) GTEST_SKIP() << LaunchCounts::unavailable_reason;
  const auto counts_of = [&](Case c, const Attends &attends) {
    const LaunchCounts launches;
    if (c.backward) {
      const BackwardInstance instance(c);
      hide(instance, attends);
      EXPECT_EQ(backward(Op(instance.desc, kernel), instance), FA_OK) << fa_last_error();
    } else {
      const Instance instance(c);
      hide(instance, attends);
      EXPECT_EQ(forward(Op(instance.desc, kernel), instance), FA_OK) << fa_last_error();
    }
    return Counts{launches.sum("warp_instructions"), launches.sum("global_bytes_read")};
  };
  struct Kind {
    int64_t queries;
    bool backward;
  };
  for (const auto &[queries, backward] : {Kind{64, false}, Kind{1, false}, Kind{64, true}}) {
    for (const std::string kept : {"k", "qk"}) {
      Case c = typed(base());
      c.sq = queries, c.sk = 4096, c.hq = 1, c.boolmask = kept, c.backward = backward, c.splits = backward ? 0 : 1;
      const auto last = [&](int64_t, int64_t j) { return j >= c.sk - 64; };
      const Counts all = counts_of(c, [](int64_t, int64_t) { return true; }), of_many = counts_of(c, last);
      c.sk = 512;
      const Counts of_few = counts_of(c, last);
      const int warps_that_look = c.q == FA_F32 ? 4 : 1;  // simt: each of a block's
      const double mask_bytes = 4096 * double(kept == "k" ? 1 : queries) * warps_that_look;
      EXPECT_LT(of_many.instructions, 0.3 * all.instructions) << repeat_line(c, kernel);
      EXPECT_LT(of_many.bytes_read - of_few.bytes_read, backward ? 0.2 * all.bytes_read : 1.2 * mask_bytes + 4096)
          << repeat_line(c, kernel);
    }
  }
}

/// Gradients, those of a bias among them: hidden ones are 0. [F204] [F173]
TEST_P(BlockMask, GradientsAreRight) {
  for (const bool by_bias : {false, true}) {
    for (const bool shared : {false, true}) {
      Case c = base();
      c.backward = true, c.sk = 300;
      if (by_bias) c.boolmask = "", c.bias = shared ? "f32:k" : "f32:hqk", c.dbias = shared ? "k" : "hqk";
      if (shared) c.b = 2, c.batch_idx = !by_bias, c.window_left = 90;
      const BackwardInstance instance(typed(c));
      const auto attends = [&](int64_t i, int64_t j) { return j / 70 == (shared ? 1 : 1 + i / 50 % 2); };
      hide(instance, attends);
      const Op op(instance.desc, kernel);
      ASSERT_EQ(backward(op, instance), FA_OK) << fa_last_error() << "\n" << repeat_line(instance.c, kernel);
      ASSERT_EQ(compare(instance, ExpectedGradients(instance)), "") << repeat_line(instance.c, kernel);
      if (!by_bias) continue;
      instance.dbias.each([&](int64_t b, int64_t h, int64_t i, int64_t j, int64_t) {
        if (attends(i, j)) return;
        ASSERT_EQ(instance.dbias.get(b, h, i, j), 0) << repeat_line(instance.c, kernel);
      });
    }
  }
}

/// A last row that attends everything, and has no gradient, changes none either. [F204]
TEST_P(BlockMask, NoBitOfGradientsDependsOnIt) {
  Case c = base();
  c.backward = c.delta = true, c.sk = 300;
  const BackwardInstance skips(typed(c)), shows(typed(c));
  hide(skips, in_blocks);
  hide(shows, [&](int64_t i, int64_t j) { return i % 32 == 31 || in_blocks(i, j); });
  for (const BackwardInstance *instance : {&skips, &shows}) {
    instance->lse.each([&](int64_t b, int64_t h, int64_t i, int64_t l, int64_t) { instance->lse.set(b, h, i, l, 4); });
    for (const Tensor *t : {&instance->dout, &instance->delta})
      t->each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) {
        if ((t == &instance->delta ? h : i) % 32 == 31) t->set(b, i, h, d, 0);
      });
    const Op op(instance->desc, kernel);
    ASSERT_EQ(backward(op, *instance), FA_OK) << fa_last_error() << "\n" << repeat_line(instance->c, kernel);
  }
  EXPECT_EQ(same_gradients(skips, shows, kernel), "");
}

TEST_ALL_TARGETS(BlockMask, {"f32", "f16", "bf16"});
INSTANTIATE_TEST_SUITE_P(Engine, CheckedBlockMask, testing::ValuesIn(gpu_targets({"f32", "f16", "bf16"})), target_name);
INSTANTIATE_TEST_SUITE_P(Engine, CountedBlockMask, testing::ValuesIn(gpu_targets({"f32", "f16", "bf16"})), target_name);

}  // namespace
}  // namespace test
