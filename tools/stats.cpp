// Order statistics: the binomial distribution for one median, the Mann-Whitney distribution for the ratio of two.
#include "stats.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fa::tool {
namespace {

std::vector<double> sorted(std::span<const double> samples) {
  std::vector<double> result(samples.begin(), samples.end());
  std::sort(result.begin(), result.end());
  return result;
}

double median_of_sorted(std::span<const double> samples) {
  const size_t n = samples.size();
  if (n == 0) return std::numeric_limits<double>::quiet_NaN();
  return n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
}

/// The largest k such that the k smallest outcomes of a symmetric distribution hold at most `tail` of its weight.
size_t outcomes_within(std::span<const double> weights, double tail) {
  double total = 0;
  for (const double w : weights) total += w;
  double sum = 0;
  for (size_t k = 0; k < weights.size(); ++k) {
    sum += weights[k];
    if (sum > tail * total) return k;
  }
  return weights.size();
}

/// Weights of 0 .. n successes in n fair trials.
std::vector<double> binomial_weights(size_t n) {
  std::vector<double> weights(n + 1);
  for (size_t k = 0; k <= n; ++k) {
    const double x = static_cast<double>(n), y = static_cast<double>(k);
    weights[k] = std::exp(std::lgamma(x + 1) - std::lgamma(y + 1) - std::lgamma(x - y + 1) - x * std::log(2.0));
  }
  return weights;
}

/// Probabilities of U = 0 .. n * m when both samples come from one distribution: of the n + m values, the largest
/// belongs to the first sample with probability n / (n + m), and then counts all m of the other below it.
std::vector<double> mann_whitney_weights(size_t n, size_t m) {
  std::vector<std::vector<double>> row(m + 1, std::vector<double>{1.0});  // for i = 0: U is 0 whatever j
  for (size_t i = 1; i <= n; ++i) {
    std::vector<std::vector<double>> next(m + 1);
    next[0] = {1.0};
    for (size_t j = 1; j <= m; ++j) {
      next[j].assign(i * j + 1, 0.0);
      const double first = static_cast<double>(i) / static_cast<double>(i + j);
      for (size_t u = 0; u < row[j].size(); ++u) next[j][u + j] += first * row[j][u];
      for (size_t u = 0; u < next[j - 1].size(); ++u) next[j][u] += (1 - first) * next[j - 1][u];
    }
    row = std::move(next);
  }
  return row[m];
}

/// Evenly spaced values of a sorted sample, so that the exact distribution stays small.
std::vector<double> thinned(std::vector<double> samples) {
  constexpr size_t most = 50;
  if (samples.size() <= most) return samples;
  std::vector<double> result;
  for (size_t i = 0; i < most; ++i) result.push_back(samples[(2 * i + 1) * samples.size() / (2 * most)]);
  return result;
}

}  // namespace

double median(std::span<const double> samples) {
  return median_of_sorted(sorted(samples));
}

Interval median_interval(std::span<const double> samples, double confidence) {
  const std::vector<double> s = sorted(samples);
  if (s.empty()) return {median_of_sorted(s), median_of_sorted(s)};
  const size_t k = outcomes_within(binomial_weights(s.size()), (1 - confidence) / 2);
  const size_t low = k == 0 ? 0 : k - 1;
  return {s[low], s[s.size() - 1 - low]};
}

Ratio ratio_of(std::span<const double> base, std::span<const double> current, double confidence) {
  const std::vector<double> b = thinned(sorted(base)), c = thinned(sorted(current));
  std::vector<double> ratios;
  for (const double x : b) {
    for (const double y : c) ratios.push_back(y / x);
  }
  std::sort(ratios.begin(), ratios.end());
  const size_t k = outcomes_within(mann_whitney_weights(b.size(), c.size()), (1 - confidence) / 2);
  const size_t low = k == 0 ? 0 : k - 1;
  return {median_of_sorted(ratios), {ratios[low], ratios[ratios.size() - 1 - low]}};
}

Verdict verdict_of(const Ratio &ratio, double threshold) {
  if (ratio.interval.low > 1 + threshold) return Verdict::slower;
  if (ratio.interval.high < 1 / (1 + threshold)) return Verdict::faster;
  return Verdict::no_difference;
}

const char *verdict_name(Verdict verdict) {
  return verdict == Verdict::faster ? "faster" : verdict == Verdict::slower ? "slower" : "no difference";
}

}  // namespace fa::tool
