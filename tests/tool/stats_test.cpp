// The statistics behind `fa bench`: known values, the coverage that intervals promise, verdicts on noise and on change.
#include "stats.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/random.h"

namespace fa::tool {
namespace {

/// Times with a tail to the right, as timings have.
std::vector<double> times(uint64_t seed, size_t count, double middle) {
  reference::Random random(seed);
  std::vector<double> samples;
  for (size_t i = 0; i < count; ++i) samples.push_back(middle * std::exp(0.03 * reference::normal(random.next())));
  return samples;
}

TEST(Stats, Median) {
  EXPECT_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_EQ(median(std::vector<double>{4, 1, 2, 3}), 2.5);
  EXPECT_TRUE(std::isnan(median({})));
}

TEST(Stats, MedianIntervalIsTheTableOfTheSignTest) {
  std::vector<double> samples;
  for (int i = 1; i <= 10; ++i) samples.push_back(i);
  Interval interval = median_interval(samples);  // 2nd and 9th of 10: 97.9 %
  EXPECT_EQ(interval.low, 2);
  EXPECT_EQ(interval.high, 9);
  for (int i = 11; i <= 15; ++i) samples.push_back(i);
  interval = median_interval(samples);  // 4th and 12th of 15: 96.5 %
  EXPECT_EQ(interval.low, 4);
  EXPECT_EQ(interval.high, 12);
  interval = median_interval(std::vector<double>{7, 5, 6});  // too few for 95 %: all there is
  EXPECT_EQ(interval.low, 5);
  EXPECT_EQ(interval.high, 7);
}

TEST(Stats, MedianIntervalCoversTheMedian) {
  int covered = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const Interval interval = median_interval(times(seed, 15, 1));
    covered += interval.low <= 1 && 1 <= interval.high;
  }
  EXPECT_GE(covered, 940);
}

TEST(Stats, RatioIntervalIsTheTableOfMannWhitney) {
  // For two samples of 5 the critical value at 5 %, two-sided, is U = 2: the third of 25 ratios from either end.
  const std::vector<double> base = {1, 1, 1, 1, 1}, current = {1, 2, 3, 4, 5};
  const Ratio ratio = ratio_of(base, current);
  EXPECT_EQ(ratio.estimate, 3);
  EXPECT_EQ(ratio.interval.low, 1);
  EXPECT_EQ(ratio.interval.high, 5);
  const std::vector<double> steps = {1, 10, 100, 1000, 10000}, other = {1.1, 12, 130, 1400, 15000};
  const Ratio wide = ratio_of(steps, other);
  std::vector<double> ratios;
  for (const double x : steps) {
    for (const double y : other) ratios.push_back(y / x);
  }
  std::sort(ratios.begin(), ratios.end());
  EXPECT_EQ(wide.interval.low, ratios[2]);
  EXPECT_EQ(wide.interval.high, ratios[22]);
}

TEST(Stats, RatioIntervalCoversTheRatio) {
  int covered = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Ratio ratio = ratio_of(times(2 * seed, 15, 1), times(2 * seed + 1, 15, 1.1));
    covered += ratio.interval.low <= 1.1 && 1.1 <= ratio.interval.high;
  }
  EXPECT_GE(covered, 465);
}

TEST(Stats, VerdictKnowsNoiseFromChange) {
  int called = 0, faster = 0, slower = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<double> base = times(3 * seed, 15, 1);
    called += verdict_of(ratio_of(base, times(3 * seed + 1, 15, 1)), 0.02) != Verdict::no_difference;
    slower += verdict_of(ratio_of(base, times(3 * seed + 2, 15, 1.1)), 0.02) == Verdict::slower;
    faster += verdict_of(ratio_of(base, times(3 * seed + 2, 15, 0.9)), 0.02) == Verdict::faster;
  }
  EXPECT_LE(called, 2);
  EXPECT_GE(slower, 198);
  EXPECT_GE(faster, 198);
}

TEST(Stats, VerdictAsksForTheWholeInterval) {
  EXPECT_EQ(verdict_of({1.05, {1.01, 1.09}}, 0.02), Verdict::no_difference);
  EXPECT_EQ(verdict_of({1.05, {1.03, 1.09}}, 0.02), Verdict::slower);
  EXPECT_EQ(verdict_of({0.95, {0.90, 0.97}}, 0.02), Verdict::faster);
  EXPECT_EQ(verdict_of({0.95, {0.90, 0.99}}, 0.02), Verdict::no_difference);
}

TEST(Stats, ManySamplesTakeNoTime) {
  const Ratio ratio = ratio_of(times(1, 100000, 1), times(2, 100000, 1.2));
  EXPECT_NEAR(ratio.estimate, 1.2, 0.01);
}

TEST(Stats, OneSampleEachIsEnoughToPrint) {
  const Ratio ratio = ratio_of(std::vector<double>{2}, std::vector<double>{3});
  EXPECT_EQ(ratio.estimate, 1.5);
  EXPECT_EQ(ratio.interval.low, 1.5);
}

}  // namespace
}  // namespace fa::tool
