// Medians of timings with confidence intervals that assume nothing of the noise's shape, and the verdict between two
// runs.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace fa::tool {

struct Interval {
  double low = 0;
  double high = 0;
};

/// The middle value, or the mean of the middle two; NaN of nothing.
double median(std::span<const double> samples);

/// The interval between two order statistics that covers the distribution's median with at least this confidence, or
/// from smallest to largest where the samples are too few for that (below 6 at 95 %).
Interval median_interval(std::span<const double> samples, double confidence = 0.95);

/// How many times the values of one sample are those of another.
struct Ratio {
  double estimate = 1;
  Interval interval;
};

/// The Hodges-Lehmann estimate of the factor from base to current, with the exact interval that belongs to the
/// Mann-Whitney test: nothing is assumed but that noise is alike in both. Both samples hold positive values, one at
/// least.
Ratio ratio_of(std::span<const double> base, std::span<const double> current, double confidence = 0.95);

enum class Verdict { faster, slower, no_difference };

/// Faster or slower only when the whole interval is beyond the threshold: 0.02 asks for 2 % at least. Ratios are of
/// times, current to base.
Verdict verdict_of(const Ratio &ratio, double threshold);

const char *verdict_name(Verdict verdict);

}  // namespace fa::tool
