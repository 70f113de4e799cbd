// property.*, continued: NaN and infinity reach the outputs that depend on them and no others. Those others stay within
// the error bounds, and under FA_FLAG_BATCH_INVARIANT the same bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "engine/target.h"
#include "reference/call.h"
#include "reference/run.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

class Containment : public EngineTest {
 protected:
  void run(const Instance &instance) {
    const Op op(instance.desc, kernel);
    ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error() << "\n" << repeat_line(instance.c, kernel);
  }

  Case prefill() const {
    Case c;
    c.b = 2, c.sq = slow ? 20 : 70, c.sk = 150, c.hq = 2, c.hkv = 1, c.d = has_wide_family() ? 40 : 20;
    return c;
  }

  /// Ways to mask, each leaving some keys unmasked for some queries.
  std::vector<Case> masked_cases() const {
    std::vector<Case> list;
    const auto add = [&](auto change) {
      Case query = prefill(), heads = prefill();
      query.sq = heads.sq = 1;
      heads.hq = 6, heads.hkv = 2, heads.d = 32;  // of a size that decode takes, side by side
      for (Case c : {query, heads, prefill()}) {
        change(&c);
        if (has_wide_family()) c.d = std::max<int64_t>(c.d, 40);
        list.push_back(typed(c, list.size()));
        if (c.splits == 0) list.push_back(list.back()), list.back().flags |= FA_FLAG_BATCH_INVARIANT;
      }
    };
    add([](Case *c) { c->mask = FA_MASK_CAUSAL; });
    add([](Case *c) { c->mask = FA_MASK_CAUSAL_TOP_LEFT; });
    add([](Case *c) { c->window_left = 30, c->window_right = 3; });
    add([](Case *c) { c->chunk = 16; });
    add([](Case *c) { c->boolmask = "bhqk"; });
    add([](Case *c) { c->boolmask = "k"; });
    add([](Case *c) { c->bias = "f32:bhqk"; });
    add([](Case *c) { c->bias = "bf16:qk", c->softcap = 3; });
    add([](Case *c) { c->bias = "f16:qk", c->softcap = 3, c->flags |= FA_FLAG_BIAS_BEFORE_SOFTCAP; });
    add([](Case *c) { c->mask = FA_MASK_CAUSAL, c->alibi = "h", c->sinks = "h", c->splits = 3; });
    add([](Case *c) { c->mask = FA_MASK_CAUSAL, c->softcap = 3, c->d = 32; });  // whole rows of 16 bytes
    add([](Case *c) { c->window_left = 30, c->window_right = 3, c->alibi = "h", c->d = 32; });
    return shard_of(list);
  }

  /// The verdict on an output that depends on a poisoned element: given its column and value, right or not; or nothing,
  /// when it must stay as it was.
  using Verdict = std::function<std::optional<bool>(int64_t, double)>;

  /// Runs the case clean, and with one element of each of the keys or values `rows` (of batch entry 0, head 0) spoiled.
  void expect_contained(const Case &c, bool in_k, std::initializer_list<int64_t> rows, double poison,
                        const Verdict &spoiled) {
    const Instance clean(c), dirty(c);
    run(clean);
    const reference::Result exact = reference::attention(clean.desc, clean.args);
    const Tensor &tensor = in_k ? dirty.k : dirty.v;
    for (const int64_t bad : rows) {
      const double good = tensor.get(0, bad, 0, 1);
      tensor.set(0, bad, 0, 1, poison);
      dirty.clear_outputs();
      run(dirty);
      tensor.set(0, bad, 0, 1, good);
      compare_with_clean(clean, dirty, exact, in_k, bad, poison, spoiled);
    }
  }

  void compare_with_clean(const Instance &clean, const Instance &dirty, const reference::Result &exact, bool in_k,
                          int64_t bad, double poison, const Verdict &spoiled) {
    const Case &c = clean.c;
    const reference::Call call(clean.desc, clean.args);
    const auto same = [&](double before, double after, double bound) {
      return before == after || (!(c.flags & FA_FLAG_BATCH_INVARIANT) && std::abs(before - after) <= 2 * bound);
    };
    clean.out.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) {
      const double before = clean.out.get(b, i, h, d), after = dirty.out.get(b, i, h, d);
      const bool attends = b == 0 && h < c.hq / c.hkv && call.attends(call.sequences[0], h, i, bad) &&
                           call.bias(call.sequences[0], h, i, bad) != -infinity;
      const std::optional<bool> verdict = attends ? spoiled(d, after) : std::nullopt;
      ASSERT_TRUE(verdict ? *verdict : same(before, after, out_bound(c, exact, exact.head(b, i, h), d)))
          << "key " << bad << (in_k ? " of k is " : " of v is ") << poison << ": query " << i << " of batch entry " << b
          << ", head " << h << ", which " << (attends ? "attends it" : "does not attend it") << ", gives " << after
          << " in column " << d << ", and " << before << " without\n"
          << repeat_line(c, kernel);
    });
    clean.lse.each([&](int64_t b, int64_t h, int64_t i, int64_t, int64_t) {
      const bool attends = in_k && b == 0 && h < c.hq / c.hkv && call.attends(call.sequences[0], h, i, bad) &&
                           call.bias(call.sequences[0], h, i, bad) != -infinity;
      const double before = clean.lse.get(b, h, i, 0), after = dirty.lse.get(b, h, i, 0);
      ASSERT_TRUE(attends ? !std::isfinite(after) : same(before, after, lse_bound(c, exact, exact.head(b, i, h))))
          << "lse of query " << i << " head " << h << " is " << after << " after " << before << "\n"
          << repeat_line(c, kernel);
    });
  }
};

std::optional<bool> is_nan(int64_t, double after) {
  return std::isnan(after);
}

// [F18]
TEST_P(Containment, NanInAKeyReachesItsQueriesAlone) {
  for (const Case &c : masked_cases()) expect_contained(c, true, {0, 17, 38, 130, 149}, nan_value, is_nan);
}

// [F18] [F24]
TEST_P(Containment, NanInAValueReachesItsColumnAlone) {
  const auto column = [](int64_t d, double after) { return d == 1 ? std::optional(std::isnan(after)) : std::nullopt; };
  for (const Case &c : masked_cases()) expect_contained(c, false, {0, 17, 130, 149}, nan_value, column);
}

TEST_P(Containment, InfinityInAValueReachesItsColumnAlone) {
  const auto column = [](int64_t d, double after) {
    return d == 1 ? std::optional(after == infinity || std::isnan(after)) : std::nullopt;
  };
  for (const Case &c : masked_cases()) expect_contained(c, false, {3, 149}, infinity, column);
}

TEST_P(Containment, InfinityInAKeyReachesItsQueriesAlone) {
  // The score is +inf for some queries (NaN), -inf for others (weight 0) and the softcap makes it finite.
  const auto anything = [](int64_t, double) { return true; };
  for (Case c : masked_cases()) {
    c.lse = false;
    expect_contained(c, true, {3, 149}, infinity, anything);
  }
}

// [F22]
TEST_P(Containment, AKeyOfScoreMinusInfinityHasNoWeight) {
  for (const int64_t sq : {1, 40}) {
    Case c = typed(prefill());
    c.sq = sq;
    const Instance infinite(c), masked([&] {
      Case m = c;
      m.boolmask = "k";
      return m;
    }());
    // q is positive in the dimension in which key 5 is -inf: every query's score of it is -inf.
    for (const Instance *instance : {&infinite, &masked})
      instance->q.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) {
        if (d == 1) instance->q.set(b, i, h, d, 0.5);
      });
    for (int64_t b = 0; b < c.b; ++b)
      for (int64_t h = 0; h < c.hkv; ++h) infinite.k.set(b, 5, h, 1, -infinity);
    masked.mask.each([&](int64_t b, int64_t h, int64_t i, int64_t j, int64_t) { masked.mask.set(b, h, i, j, j != 5); });
    run(infinite);
    run(masked);
    infinite.out.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) {
      ASSERT_NEAR(infinite.out.get(b, i, h, d), masked.out.get(b, i, h, d), 1e-2) << repeat_line(c, kernel);
    });
  }
}

TEST_P(Containment, NanInAQueryReachesItAlone) {
  for (const int64_t sq : {1, 3, 40}) {
    Case c = typed(prefill(), uint64_t(sq));
    c.sq = sq;
    const Instance clean(c), dirty(c);
    dirty.q.set(1, sq / 2, 1, 0, nan_value);
    run(clean);
    run(dirty);
    clean.out.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) {
      const double before = clean.out.get(b, i, h, d), after = dirty.out.get(b, i, h, d);
      const bool hit = b == 1 && i == sq / 2 && h == 1;
      ASSERT_TRUE(hit ? std::isnan(after) : before == after) << repeat_line(c, kernel);
    });
  }
}

/// Scores that make a row's reference move, or its weights exact, change no bit of the rows next to it.
TEST_P(Containment, ALargeQueryLeavesTheBitsOfOthers) {
  Case c = typed(prefill());
  c.sq = 40;
  for (const double factor : {30.0, 1e4}) {
    const Instance clean(c), dirty(c);
    for (int64_t d = 0; d < c.d; ++d) dirty.q.set(1, 20, 1, d, factor * clean.q.get(1, 20, 1, d));
    run(clean);
    run(dirty);
    clean.out.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) {
      if (b == 1 && i == 20 && h == 1) return;
      ASSERT_EQ(clean.out.get(b, i, h, d), dirty.out.get(b, i, h, d)) << repeat_line(c, kernel);
    });
  }
}

// [F19]
TEST_P(Containment, RowsWithoutKeysAreZero) {
  for (const bool sinks : {false, true}) {
    Case c = typed(prefill(), sinks);
    c.sq = 150, c.sk = 40, c.mask = FA_MASK_CAUSAL, c.sinks = sinks ? "h" : "";
    const Instance instance(c);
    instance.v.each([&](int64_t b, int64_t j, int64_t h, int64_t d, int64_t) { instance.v.set(b, j, h, d, 1); });
    run(instance);
    instance.out.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) {
      const double got = instance.out.get(b, i, h, d);
      ASSERT_TRUE(i < 110 ? got == 0 : got > 0) << repeat_line(c, kernel);
    });
    instance.lse.each([&](int64_t b, int64_t h, int64_t i, int64_t, int64_t) {
      const double got = instance.lse.get(b, h, i, 0);
      ASSERT_TRUE(i >= 110 || got == (sinks ? instance.sinks.get(0, h, 0, 0) : -infinity)) << repeat_line(c, kernel);
    });
  }
}

TEST_ALL_TARGETS(Containment, all_types);

}  // namespace
}  // namespace test
