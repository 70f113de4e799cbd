// The calls of extremes.cpp and extreme_values.cpp, and comparisons of their results.
#pragma once

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <functional>
#include <limits>

#include "engine/target.h"
#include "reference/number.h"
#include "reference/run.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;

inline constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double largest = FLT_MAX;

/// Rounding of the weights, of their sum and of the result.
inline double rounding(const Case &c, double value) {
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
    add([](Case *c) { c->hq = 8, c->hkv = 2, c->sq = 10; });
    add([](Case *c) { c->hq = 8, c->hkv = 2, c->sq = 10, c->k_layout = c->v_layout = Layout::mirrored; });
    add([](Case *c) { c->splits = 3; });
    add([](Case *c) { c->sq = 1, c->splits = 2; });
    add([](Case *c) { c->flags |= FA_FLAG_BATCH_INVARIANT; });
    add([](Case *c) { c->boolmask = "k"; });
    return list;
  }
};

/// All elements of a tensor.
inline void fill(const Tensor &tensor, double x) {
  tensor.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) { tensor.set(i, j, h, d, x); });
}

inline void attend_everything(const Instance &instance) {
  if (instance.mask) fill(instance.mask, 1);
}

/// Key j of every head, all its elements.
inline void set_key(const Instance &instance, int64_t j, double x) {
  for (int64_t h = 0; h < instance.c.hkv; ++h)
    for (int64_t d = 0; d < instance.c.d; ++d) instance.k.set(0, j, h, d, x);
}

/// Queries of one element, and keys of its negative: all scores are -x at scale 1.
inline void set_low_scores(const Instance &instance, double element) {
  attend_everything(instance);
  fill(instance.q, element);
  fill(instance.k, -element);
}

/// Scores from harmless to the largest that the types of q and k, and f32, hold.
inline std::vector<double> scores_of(const Case &c) {
  std::vector<double> list;
  for (const double x : {1e3, 3e5, 5e6, 3e7, 3.8e8, 1.5e9, 1.6e9, 3e9, 2e10, 1e13, 1e20, 1e30, 3.2e38}) {
    const double element = std::sqrt(x / double(c.d));  // of q and k, at scale 1
    if (element < (c.q == FA_F16 || c.kv_type() == FA_F16 ? 60000.0 : 1e30)) list.push_back(x);
  }
  return list;
}

}  // namespace test
