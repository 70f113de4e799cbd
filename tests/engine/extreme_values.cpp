// extremes.*: values that are not finite, and offsets at the ends of their range.
#include <climits>
#include <functional>

#include "engine/extremes.h"

namespace test {
namespace {

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
      set_low_scores(s, element);
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

}  // namespace
}  // namespace test
