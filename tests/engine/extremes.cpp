// extremes.*: scores and weights at the ends of their ranges, within the domain that fa.h states.
#include "engine/extremes.h"

namespace test {
namespace {

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
      set_low_scores(s, element);
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

TEST_ALL_TARGETS(Extremes, all_types);

}  // namespace
}  // namespace test
