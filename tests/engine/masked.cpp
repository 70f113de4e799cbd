// masked.*: blocks of keys that a boolean mask or a bias takes from every query of a tile need no work, and leaving it
// out changes no bit. (scaling.* counts the work.)
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/target.h"
#include "reference/compare_gradients.h"
#include "reference/run.h"

namespace test {
using namespace reference;
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

class Masked : public EngineTest {
 protected:
  /// Whole blocks of every kernel, whatever their size.
  static constexpr int64_t first = 128, last = 512, keys = 700;

  void run(const Instance &instance) {
    const Op op(instance.desc, kernel);
    ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error() << "\n" << repeat_line(instance.c, kernel);
  }
  void run(const BackwardInstance &instance) {
    instance.clear_gradients();
    const Op op(instance.desc, kernel);
    ASSERT_EQ(backward(op, instance), FA_OK) << fa_last_error() << "\n" << repeat_line(instance.c, kernel);
  }

  std::vector<Case> cases(int64_t queries) const {
    std::vector<Case> list;
    const auto add = [&](auto change) {
      for (const uint32_t flags : {0u, uint32_t{FA_FLAG_BATCH_INVARIANT}}) {
        Case c;
        c.b = 2, c.sq = queries, c.sk = keys, c.hq = 4, c.hkv = 2, c.d = 32, c.flags = flags;
        change(&c);
        list.push_back(typed(c, list.size()));
      }
    };
    add([](Case *c) { c->boolmask = "bhqk"; });
    add([](Case *c) { c->boolmask = "k"; });
    add([](Case *c) { c->bias = "f32:bhqk"; });
    add([](Case *c) { c->bias = "f16:qk", c->mask = FA_MASK_CAUSAL; });
    add([](Case *c) { c->bias = "bf16:hqk", c->softcap = 3, c->flags |= FA_FLAG_BIAS_BEFORE_SOFTCAP; });
    add([](Case *c) { c->boolmask = "qk", c->bias = "f32:k", c->alibi = "h", c->sinks = "h"; });
    return shard_of(list);
  }

  /// Takes keys from every query, or from those for which `attends` says so.
  template <class Attends>
  static void take(const Instance &instance, const Attends &attends) {
    const auto each = [&](const Tensor &tensor, double masked) {
      tensor.each([&](int64_t b, int64_t h, int64_t i, int64_t j, int64_t) {
        if (!attends(i, j)) tensor.set(b, h, i, j, masked);
      });
    };
    if (!instance.c.boolmask.empty()) each(instance.mask, 0);
    if (!instance.c.bias.empty()) each(instance.bias, -infinity);
  }

  static void take_block(const Instance &instance) {
    take(instance, [](int64_t, int64_t j) { return j < first || j >= last; });
  }

  /// The contents of keys and values that no query attends are not read.
  static void spoil_block(const Instance &instance) {
    for (int64_t j = first; j < last; ++j)
      for (int64_t d = 0; d < instance.c.d; ++d)
        instance.k.set(1, j, 1, d, d % 2 ? nan : infinity), instance.v.set(0, j, 0, d, d % 3 ? nan : -infinity);
  }
};

// [F18]
TEST_P(Masked, BlocksThatNobodyAttends) {
  for (const int64_t queries : {1, 3, 150}) {
    for (const Case &c : cases(queries)) {
      const Instance clean(c), spoiled(c);
      for (const Instance *instance : {&clean, &spoiled}) take_block(*instance);
      spoil_block(spoiled);
      run(clean);
      run(spoiled);
      ASSERT_EQ(compare(clean, Expected(clean)), "") << repeat_line(c, kernel);
      ASSERT_EQ(same_outputs(clean, spoiled, kernel), "");
    }
  }
}

// [F169] [F171] [F173]
TEST_P(Masked, GradientsOfBlocksThatNobodyAttends) {
  for (Case c : cases(150)) {
    c.backward = true;
    if (!c.bias.empty()) c.dbias = c.bias.substr(c.bias.find(':') + 1);
    const BackwardInstance clean(c), spoiled(c);
    for (const BackwardInstance *instance : {&clean, &spoiled}) take_block(*instance);
    spoil_block(spoiled);
    run(clean);
    run(spoiled);
    ASSERT_EQ(compare(clean, ExpectedGradients(clean)), "") << repeat_line(c, kernel);
    ASSERT_EQ(same_gradients(clean, spoiled, kernel), "");
    for (int64_t j = first; j < last; ++j) {
      ASSERT_EQ(spoiled.dk.get(1, j, 1, 5), 0) << repeat_line(c, kernel);
      ASSERT_EQ(spoiled.dv.get(0, j, 0, 5), 0) << repeat_line(c, kernel);
      if (!c.dbias.empty()) {
        ASSERT_EQ(spoiled.dbias.get(0, 0, spoiled.dbias.shape()[2] - 1, j), 0) << repeat_line(c, kernel);
      }
    }
  }
}

/// A mask equal to a window gives the window's bits: the window's blocks are left out by its intervals.
TEST_P(Masked, AsAWindow) {
  for (const bool by_bias : {false, true}) {
    for (const uint32_t flags : {0u, uint32_t{FA_FLAG_BATCH_INVARIANT}}) {
      if (!in_shard(2 * by_bias + (flags != 0))) continue;
      Case window = typed(Case());
      window.b = 1, window.sq = 300, window.sk = keys, window.hq = 2, window.hkv = 1, window.d = 32;
      window.flags = flags, window.alibi = "h", window.backward = true;
      window.window_left = 40, window.window_right = 7;
      (by_bias ? window.bias : window.boolmask) = by_bias ? "f32:qk" : "qk";
      if (by_bias) window.dbias = "qk";
      Case mask = window;
      mask.window_left = mask.window_right = -1;
      const BackwardInstance a(window), b(mask);
      const auto attends = [&](int64_t i, int64_t j) {
        const int64_t position = i + keys - window.sq;
        return position - 40 <= j && j <= position + 7;
      };
      for (const BackwardInstance *instance : {&a, &b}) take(*instance, attends);
      run(static_cast<const Instance &>(a));
      run(static_cast<const Instance &>(b));
      ASSERT_EQ(same_outputs(a, b, kernel), "");
      run(a);
      run(b);
      ASSERT_EQ(same_gradients(a, b, kernel), "");
    }
  }
}

TEST_TARGETS(Masked, {"f32", "f16", "bf16"});

}  // namespace
}  // namespace test
