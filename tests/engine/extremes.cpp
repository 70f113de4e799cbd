// extremes.*: scores, weights, values and offsets at the ends of their ranges, within the domain that fa.h states.
#include <gtest/gtest.h>

#include <cfloat>
#include <climits>
#include <cmath>
#include <functional>
#include <limits>

#include "engine/target.h"
#include "reference/number.h"
#include "reference/run.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double largest = FLT_MAX;

/// Rounding of the weights, of their sum and of the result.
double rounding(const Case &c, double value) {
  const double u = unit_roundoff(FA_F32), of_weights = c.q == FA_F32 ? 0 : unit_roundoff(c.q);
  return (3 * of_weights + double(c.sk + 32) * u + unit_roundoff(c.out_type())) * std::abs(value) +
         smallest(c.out_type());
}

class Extremes : public EngineTest {
 protected:
  void run(const Instance &instance) {
    const Op op(instance.desc, kernel);
    ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error() << "\n" << repeat_line(instance.c, kernel);
  }

  /// Runs and compares with the oracle.
  void check(const Instance &instance, const std::string &what) {
    run(instance);
    EXPECT_EQ(compare(instance, Expected(instance)), "") << what << "\n" << repeat_line(instance.c, kernel);
  }

  /// Expects the outputs of queries from first on to be the mean of some values, within rounding.
  void expect_means(const Instance &s, const std::vector<int64_t> &keys, int64_t first, const std::string &what) {
    const Case &c = s.c;
    int64_t wrong = 0;
    s.out.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) {
      if (i < first || wrong > 0) return;
      double mean = 0, size = 0;
      for (const int64_t j : keys) {
        const double value = s.v.get(b, j, h * c.hkv / c.hq, d);
        mean += value / double(keys.size()), size += std::abs(value) / double(keys.size());
      }
      const double got = s.out.get(b, i, h, d);
      if (std::abs(got - mean) <= rounding(c, size)) return;
      ++wrong;
      ADD_FAILURE() << what << ": out[" << b << "][" << i << "][" << h << "][" << d << "] is " << got << ", expected "
                    << mean << "\n"
                    << repeat_line(c, kernel);
    });
  }

  std::vector<Case> cases() const { return shard_of(all_cases(), has_source_of_sm_80() ? 4 : 1); }

  /// Emulated GPUs whose kernels of these types are compiled from the source of SM 80's run a quarter of its cases.
  bool has_source_of_sm_80() const {
    return slow && (GetParam().arch == "sm_120" || (GetParam().arch == "sm_90a" && GetParam().types == "f32"));
  }

  /// One for each way through the kernels: plain and general tiles, few rows, splits.
  std::vector<Case> all_cases() const {
    std::vector<Case> list;
    const auto add = [&](const std::function<void(Case *)> &change) {
      Case c;
      c.sq = slow ? 20 : 70, c.sk = 150, c.d = 64;
      change(&c);
      list.push_back(typed(c, 5 * list.size()));
    };
    add([](Case *) {});
    add([](Case *c) { c->mask = FA_MASK_CAUSAL, c->sq = 150; });
    add([](Case *c) { c->sq = 1; });
    add([](Case *c) { c->hq = 4, c->sq = 2; });
    add([](Case *c) { c->splits = 3; });
    add([](Case *c) { c->sq = 1, c->splits = 2; });
    add([](Case *c) { c->flags |= FA_FLAG_BATCH_INVARIANT; });
    add([](Case *c) { c->boolmask = "k"; });
    return list;
  }
};

/// All elements of a tensor.
void fill(const Tensor &tensor, double x) {
  tensor.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) { tensor.set(i, j, h, d, x); });
}

void attend_everything(const Instance &instance) {
  if (instance.mask) fill(instance.mask, 1);
}

/// Key j of every head, all its elements.
void set_key(const Instance &instance, int64_t j, double x) {
  for (int64_t h = 0; h < instance.c.hkv; ++h)
    for (int64_t d = 0; d < instance.c.d; ++d) instance.k.set(0, j, h, d, x);
}

/// Scores from harmless to the largest that the types of q and k, and f32, hold.
std::vector<double> scores_of(const Case &c) {
  std::vector<double> list;
  for (const double x : {1e3, 3e5, 5e6, 3e7, 3.8e8, 1.5e9, 1.6e9, 3e9, 2e10, 1e13, 1e20, 1e30, 3.2e38}) {
    const double element = std::sqrt(x / double(c.d));  // of q and k, at scale 1
    if (element < (c.q == FA_F16 || c.kv_type() == FA_F16 ? 60000.0 : 1e30)) list.push_back(x);
  }
  return list;
}

// [F25]
TEST_P(Extremes, OneKeyAboveAllOthers) {
  for (Case c : cases()) {
    for (const double x : scores_of(c)) {
      for (const int64_t dominant : {0, 100, 149}) {
        c.scale = 1;
        const Instance s(c);
        const double element = std::sqrt(x / double(c.d));
        attend_everything(s);
        fill(s.q, element);
        s.k.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) { s.k.set(i, j, h, d, element * 0.5); });
        set_key(s, dominant, element);
        run(s);
        const std::string what = "a score of " + std::to_string(x) + ", key " + std::to_string(dominant);
        expect_means(s, {dominant}, c.mask == FA_MASK_CAUSAL ? dominant : 0, what);
        const double score = s.q.get(0, 0, 0, 0) * s.k.get(0, dominant, 0, 0) * double(c.d);
        EXPECT_NEAR(s.lse.get(0, 0, c.sq - 1, 0), score, 80 * 0x1p-24 * score) << what;
      }
    }
  }
}

TEST_P(Extremes, TiesShareEvenly) {
  for (Case c : cases()) {
    if (c.mask != FA_MASK_NONE) continue;
    for (const double x : scores_of(c)) {
      c.scale = 1;
      const Instance s(c);
      const double element = std::sqrt(x / double(c.d));
      attend_everything(s);
      fill(s.q, element);
      fill(s.k, -element);
      for (const int64_t j : {2, 90, 91, 140}) set_key(s, j, element);
      run(s);
      expect_means(s, {2, 90, 91, 140}, 0, "scores of " + std::to_string(x));
    }
  }
}

/// The bias that models write where a key is masked: on every key of a row it masks nothing.
// [F23]
TEST_P(Extremes, PaddingOnEveryKeyOfARow) {
  for (Case c : cases()) {
    for (const char *bias : {"f32:q", "bf16:q", "f16:q"}) {
      c.bias = bias;
      const Instance s(c);
      const double lowest = s.bias.dtype() == FA_F16 ? -65504 : s.bias.dtype() == FA_BF16 ? -0x1.fep127 : -largest;
      for (const double value : {-3e4, -3e9, -1e12, -1e30, lowest / 2, lowest, -lowest}) {
        if (value < lowest) continue;
        s.bias.each([&](int64_t b, int64_t h, int64_t i, int64_t j, int64_t) {
          s.bias.set(b, h, i, j, i % 2 == 0 ? value : 0);
        });
        check(s, "a bias of " + std::to_string(value));
      }
      // Scores that are all equal: the mean, exactly.
      fill(s.q, 0);
      attend_everything(s);
      fill(s.bias, lowest);
      fill(s.v, 1.5);
      run(s);
      expect_means(s, {0}, 0, "the lowest bias");
    }
  }
}

// [F14]
TEST_P(Extremes, OnlyMinusInfinityMasks) {
  for (Case c : cases()) {
    c.bias = "f32:k";
    const Instance s(c);
    attend_everything(s);
    fill(s.bias, -infinity);
    s.bias.set(0, 0, 0, 0, -largest);
    check(s, "one key of -FLT_MAX");
    for (const int64_t j : {1, 60, 149}) s.bias.set(0, 0, 0, j, -largest);
    check(s, "keys of -FLT_MAX");
    s.bias.set(0, 0, 0, 60, largest);
    check(s, "and one of FLT_MAX");
    s.bias.set(0, 0, 0, 60, -infinity);
    s.bias.set(0, 0, 0, 149, -0.75 * largest);
    check(s, "and one of -0.75 FLT_MAX");
  }
}

TEST_P(Extremes, SinksOfAnySize) {
  for (Case c : cases()) {
    c.sinks = "h";
    for (const bool keys : {true, false}) {
      if (!keys) c.boolmask = "k";
      const Instance s(c);
      if (!keys) fill(s.mask, 0);
      for (const double sink : {-largest, -1e30, -1e9, 1e9, 1e30, largest}) {
        fill(s.sinks, sink);
        check(s, "a sink of " + std::to_string(sink) + (keys ? "" : " and no key"));
      }
    }
  }
}

TEST_P(Extremes, ScalesAndSoftcapsOfAnySize) {
  for (const Case &base : cases()) {
    const auto expect_mean = [&](const Case &c, const char *what) {
      const Instance s(c);
      attend_everything(s);
      fill(s.q, 0);
      check(s, what);
    };
    for (const double scale : {1e-45, 1e-38, -1e-38, 3e38, -3e38, double(FLT_MAX)}) {
      Case c = base;
      c.scale = scale;
      expect_mean(c, "an extreme scale of zeros");
      c.softcap = 2;
      expect_mean(c, "an extreme scale of zeros, capped");
    }
    for (const double softcap : {1e-45, 1e-40, 1e-20, 1e30, 3e38}) {
      Case c = base;
      c.softcap = softcap;
      expect_mean(c, "an extreme softcap of zeros");
      check(Instance(c), "an extreme softcap");
    }
  }
}

/// Caps from where scores hardly reach them to where all are at them, of finite scores and infinite ones.
TEST_P(Extremes, CappedScoresOfAnySize) {
  for (Case c : cases()) {
    for (const double softcap : {1e-3, 1.0, 30.0, 255.0, 300.0, 1e5}) {
      c.softcap = softcap;
      for (const double x : scores_of(c)) {
        c.scale = 1;
        const Instance s(c);
        const double element = std::sqrt(x / double(c.d));
        fill(s.q, element);
        s.k.each([&](int64_t b, int64_t j, int64_t h, int64_t d, int64_t) {
          s.k.set(b, j, h, d, j % 3 == 0 ? element : j % 3 == 1 ? -element : 0);
        });
        check(s, "scores of " + std::to_string(x) + ", capped");
      }
      const Instance s(c);
      fill(s.q, 0.25);
      set_key(s, 140, infinity);
      set_key(s, 3, -infinity);
      check(s, "scores of inf and -inf, capped");
      fill(s.k, -infinity);
      check(s, "nothing but scores of -inf, capped");
    }
  }
}

TEST_P(Extremes, SlopesOfAnySize) {
  for (Case c : cases()) {
    c.alibi = "h";
    for (const double softcap : {0.0, 20.0}) {
      c.softcap = softcap;
      const Instance s(c);
      for (const double slope : {0.0, -0.5, 1e-30, 100.0, 1e6, 1e12}) {
        fill(s.alibi_slopes, slope);
        check(s, "a slope of " + std::to_string(slope));
      }
    }
  }
}

/// Products that nearly overflow with a scale that makes them small again.
TEST_P(Extremes, LargeProductsOfASmallScale) {
  for (Case c : all_cases()) {  // not shared: some types have none
    if (c.q != FA_F32 && c.q != FA_BF16) continue;
    if (c.kv_type() == FA_F16) continue;
    for (const double scale : {1e-38, 1e-37, 1e-36, 1e-30}) {
      c.scale = scale;
      c.d = 1;
      const Instance s(c);
      attend_everything(s);
      fill(s.q, 1e19);
      s.k.each([&](int64_t b, int64_t j, int64_t h, int64_t d, int64_t) {
        s.k.set(b, j, h, d, (j % 7 == 3 ? 3e19 : j % 2 == 0 ? 1e19 : -3e19));
      });
      check(s, "large products");
    }
  }
}

// [F21] [F22]
TEST_P(Extremes, InfiniteScores) {
  for (Case c : cases()) {
    for (const bool sinks : {false, true}) {
      c.sinks = sinks ? "h" : "";
      const Instance s(c);
      fill(s.q, 0.25);
      set_key(s, 140, infinity);
      check(s, "a score of inf: NaN");
      set_key(s, 140, -infinity);
      check(s, "a score of -inf: no weight");
      set_key(s, 3, infinity);
      check(s, "scores of both");
      fill(s.k, -infinity);
      check(s, "nothing but scores of -inf: as without keys");
    }
  }
}

/// Weights far below the largest are not lost.
TEST_P(Extremes, SmallWeights) {
  for (Case c : cases()) {
    c.out = FA_F32;
    c.scale = 1;
    for (const double gap : {2.0, 5.0, 8.0, 9.0, 10.0, 12.0, 14.0, 16.0, 16.6}) {
      const Instance s(c);
      attend_everything(s);
      fill(s.q, 1);
      fill(s.k, 0);
      // One key's score is above all others; only theirs have values.
      for (int64_t h = 0; h < c.hkv; ++h) s.k.set(0, 120, h, 0, gap);
      s.v.each([&](int64_t b, int64_t j, int64_t h, int64_t d, int64_t) {
        s.v.set(b, j, h, d, j == 120 ? 0 : j % 30 == 0 ? 60000 : 0);
      });
      check(s, "weights of exp(-" + std::to_string(gap) + ")");
    }
  }
}

/// Maxima that rise from tile to tile, or fall: references move, and weights before and after stay in proportion.
TEST_P(Extremes, RisingAndFallingScores) {
  for (Case c : cases()) {
    c.scale = 1;
    for (const double step : {0.01, 0.1, 0.5, -0.01, -0.1, -0.5}) {
      const Instance s(c);
      fill(s.q, 1);
      fill(s.k, 0);
      for (int64_t h = 0; h < c.hkv; ++h)
        for (int64_t j = 0; j < c.sk; ++j) s.k.set(0, j, h, 0, step * double(j));
      check(s, "scores in steps of " + std::to_string(step));
    }
  }
}

/// Values that are NaN or infinite give the results of fa.h, whatever is masked and however small their weights are.
// [F24]
TEST_P(Extremes, NonFiniteValues) {
  for (Case c : cases()) {
    c.special = true;
    for (const fa_mask mask : {c.mask, fa_mask{FA_MASK_CAUSAL_TOP_LEFT}}) {
      c.mask = mask;
      for (const double amp : {1.0, 300.0}) {
        c.amp = amp;
        check(Instance(c), "values that are not finite");
      }
      if (c.q != FA_F16 && c.kv_type() != FA_F16) {
        c.amp = 1e3, c.k_amp = 1e14;
        check(Instance(c), "values that are not finite, with scores that leave most keys no weight");
        c.k_amp = Case{}.k_amp;
      }
      c.amp = 1;
      Case sunk = c;
      sunk.sinks = "h";
      const Instance s(sunk);
      fill(s.sinks, 200);
      check(s, "values that are not finite, under a sink that leaves them no weight");
    }
  }
  // Two keys: the first query attends infinity alone.
  Case c = typed(Case{});
  c.sq = c.sk = 2, c.mask = FA_MASK_CAUSAL_TOP_LEFT;
  const Instance s(c);
  for (int64_t d = 0; d < c.d; ++d) s.v.set(0, 0, 0, d, infinity), s.v.set(0, 1, 0, d, nan_value);
  run(s);
  for (int64_t d = 0; d < c.d; ++d) {
    EXPECT_EQ(s.out.get(0, 0, 0, d), infinity);
    EXPECT_TRUE(std::isnan(s.out.get(0, 1, 0, d)));
  }
}

TEST_P(Extremes, OffsetsOfAnySize) {
  for (Case c : cases()) {
    c.offset = true;
    for (const int32_t offset : {INT_MIN, INT_MIN + 100, -1000000000, -1, 1000000000, INT_MAX - 100, INT_MAX}) {
      const auto check_with = [&](const std::function<void(Case *)> &change) {
        Case changed = c;
        change(&changed);
        const Instance s(changed);
        s.q_offset[0] = offset;
        check(s, "an offset of " + std::to_string(offset));
      };
      check_with([](Case *) {});
      check_with([](Case *x) { x->mask = FA_MASK_CAUSAL; });
      check_with([](Case *x) { x->window_left = int64_t{1} << 32; });
      check_with([](Case *x) { x->window_left = INT_MAX, x->window_right = INT_MAX; });
      check_with([](Case *x) { x->window_left = INT64_MAX, x->window_right = INT64_MAX - 1; });
      check_with([&](Case *x) { x->window_left = std::abs(int64_t{offset}) - 10, x->window_right = 10; });
      check_with([&](Case *x) { x->window_left = 10, x->window_right = std::abs(int64_t{offset}) + 10; });
      check_with([](Case *x) { x->chunk = int64_t{1} << 40; });
      check_with([](Case *x) { x->chunk = 100; });
      check_with([](Case *x) { x->alibi = "h"; });
    }
  }
}

/// Distances beyond 31 bits: the nearest keys' values count, which are the last ones or the first.
TEST_P(Extremes, SlopesAtTheLastOffsets) {
  for (const int32_t offset : {INT_MAX, INT_MIN}) {
    Case c;
    c.sq = 20, c.sk = 1200, c.d = 64, c.alibi = "h", c.offset = true, c.splits = 1;
    c = typed(c);
    const Instance s(c);
    s.q_offset[0] = offset;
    fill(s.alibi_slopes, 1);
    s.v.each([&](int64_t b, int64_t j, int64_t h, int64_t d, int64_t) {
      s.v.set(b, j, h, d, (j < 600) == (offset < 0) ? 1 : 0);
    });
    run(s);
    s.out.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) {
      ASSERT_NEAR(s.out.get(b, i, h, d), 1, 1e-2) << "query " << i << "\n" << repeat_line(c, kernel);
    });
  }
}

/// The last keys' scores are large and negative, so that they are rounded by more than weights can hold, and a later
/// tile has a score of 0.
TEST_P(Extremes, OneScoreOfZeroAboveAllOthers) {
  for (Case c : cases()) {
    for (const double x : scores_of(c)) {
      c.scale = 1;
      const Instance s(c);
      const double element = std::sqrt(x / double(c.d));
      attend_everything(s);
      fill(s.q, element);
      fill(s.k, -element);
      set_key(s, 2, 0);
      run(s);
      expect_means(s, {2}, c.mask == FA_MASK_CAUSAL ? 2 : 0, "scores of 0 and -" + std::to_string(x));
    }
  }
}

TEST_P(Extremes, NonFiniteValuesOfKeysWithoutWeight) {
  for (Case c : cases()) {
    c.special = true;
    for (const bool sinks : {false, true}) {
      c.sinks = sinks ? "h" : "";
      const Instance s(c);
      fill(s.q, 0.25);
      for (int64_t j = 0; j < c.sk; j += 2) set_key(s, j, -infinity);
      check(s, "every other score is -inf");
      fill(s.k, -infinity);
      check(s, "nothing but scores of -inf");
    }
  }
}

TEST_ALL_TARGETS(Extremes, all_types);

}  // namespace
}  // namespace test
