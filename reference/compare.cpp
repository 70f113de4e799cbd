#include "reference/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "reference/codes.h"
#include "reference/hadamard.h"
#include "reference/number.h"

namespace reference {
namespace {

constexpr double u32 = 0x1p-24;
constexpr double infinity = std::numeric_limits<double>::infinity();

std::string describe(const char *what, int64_t b, int64_t i, int64_t h, int64_t d, double got, double expected,
                     double bound) {
  char text[256];
  std::snprintf(text, sizeof text, "%s[%lld][%lld][%lld][%lld] is %.9g, expected %.9g, error %.3g, bound %.3g", what,
                (long long)b, (long long)i, (long long)h, (long long)d, got, expected, std::abs(got - expected), bound);
  return text;
}

bool same_special(double got, double expected) {
  return std::isnan(expected) ? std::isnan(got) : got == expected;
}

/// Roundings of a quantised element: (code - zero) * scale, and the scale as a factor of the sum.
double dequantised(fa_dtype dtype) {
  return codes_of(dtype) ? 4 : 0;
}

/// The error of a rotated query, whose elements may be rounded to its type, relative to its length.
double rotated_query(const Case &c) {
  const int64_t n = hadamard_block(c.flags & FA_FLAG_HADAMARD_K, c.d - c.rope);
  return n == 1 ? 0 : hadamard_steps(n) * u32 + unit_roundoff(c.q);
}

/// Roundings of a result that is rotated back.
double rotated_result(const Case &c) {
  return hadamard_steps(hadamard_block(c.flags & FA_FLAG_HADAMARD_V, c.dim_v()));
}

/// The error of a score that is summed in f32 from exact products, and of the softcap's tanh.
double score_error(const Case &c, const Result &r, int64_t at) {
  const double each = (double(c.d) + 16 + dequantised(c.kv_type())) * u32 + rotated_query(c);
  return each * r.score[size_t(at)] + r.lost[size_t(at)] + 8 * u32 * c.softcap;
}

/// The error, relative to the largest one, of a probability that is too small for the normal numbers of q's type. Those
/// of f16 are stored as 2^10 times themselves at least, and types with f32's exponents have all normal ones.
double smallest_probability(const Case &c) {
  return has_f32_exponents(c.q) ? 0 : 0x1p-11 * smallest(c.q);
}

/// Values below f32's normal numbers in dot products of bf16.
double flushed_value(const Case &c) {
  return products_flush(c.q) && products_flush(c.kv_type()) && products_flush(c.v_type()) ? 0x1p-126 : 0;
}

}  // namespace

double out_bound(const Case &c, const Result &r, int64_t at, int64_t d) {
  const size_t element = size_t(at * r.dim + d);
  const double moved = 2 * score_error(c, r, at), furthest = 2 * r.largest_v[element];
  // Weights that may be off by more than their own size: any mean of the values is possible.
  const double by_scores = moved < 1 ? std::min(std::expm1(moved) * r.mean_v[element], furthest) : furthest;
  const double steps = r.keys[size_t(at)] + 32 + dequantised(c.v_type()) + rotated_result(c);
  const double weights = steps * u32 + 3 * operand_roundoff(c.q);
  // Weights below the normal numbers of f32, relative to the largest, may be taken for 0.
  const double underflow = r.keys[size_t(at)] * 0x1p-124 * std::max(1.0, r.largest_v[element]);
  return by_scores + weights * r.mean_v[element] + smallest_probability(c) * r.even_v[element] +
         unit_roundoff(c.out_type()) * std::abs(r.out[element]) + smallest(c.out_type()) + underflow;
}

double lse_bound(const Case &c, const Result &r, int64_t at) {
  return score_error(c, r, at) + (r.keys[size_t(at)] + 32) * u32 + operand_roundoff(c.q) / 16 +
         2 * u32 * std::abs(r.lse[size_t(at)]);
}

std::string compare(const Instance &instance, const Expected &expected, Errors *errors) {
  const Case &c = instance.c;
  const Result &r = expected.exact;
  Errors e;
  std::string worst;
  double floor = 0;
  for (int64_t b = 0; b < r.batch; ++b) {
    for (int64_t i = 0; i < r.rows; ++i) {
      for (int64_t h = 0; h < r.heads && r.written[size_t(r.row(b, i))]; ++h) {
        const int64_t at = r.head(b, i, h);
        if (instance.lse) {
          const double want = r.lse[size_t(at)], got = instance.lse.get(b, h, i, 0);
          const double bound = lse_bound(c, r, at), error = std::abs(got - want);
          if (std::isfinite(want) ? !(error <= bound) : !same_special(got, want))
            return describe("lse", b, h, i, 0, got, want, bound);
          if (std::isfinite(want)) e.lse_of_bound = std::max(e.lse_of_bound, error / bound);
        }
        for (int64_t d = 0; d < r.dim; ++d) {
          const size_t element = size_t(at * r.dim + d);
          const double want = r.out[element], got = instance.out.get(b, i, h, d), error = std::abs(got - want);
          const double bound = out_bound(c, r, at, d);
          if (std::isfinite(want) ? !(error <= bound) : !same_special(got, want))
            return describe("out", b, i, h, d, got, want, bound);
          if (!std::isfinite(want)) continue;
          if (error > e.out) worst = describe("out", b, i, h, d, got, want, bound);
          e.out = std::max(e.out, error);
          e.of_bound = std::max(e.of_bound, error / bound);
          e.naive = std::max(e.naive, std::abs(expected.naive.out[element] - want));
          // One rounding of a probability and one of a score: in a small case luck alone can make naive better by that.
          const double by_lost = std::expm1(2 * std::min(r.lost[size_t(at)], 1.0)) * r.mean_v[element];
          const double of_score = (4 * u32 + rotated_query(c)) * r.score[size_t(at)];
          floor = std::max(floor, (unit_roundoff(c.q) + 4 * u32 + of_score) * r.mean_v[element] +
                                      std::min(r.lost[size_t(at)] < 1 ? by_lost : infinity, 2 * r.largest_v[element]) +
                                      smallest_probability(c) * r.even_v[element] + flushed_value(c));
        }
      }
    }
  }
  if (errors) *errors = e;
  if (e.out <= 2 * e.naive + floor) return "";
  char text[160];
  std::snprintf(text, sizeof text, "; largest error %.3g is more than twice naive's %.3g + %.3g", e.out, e.naive,
                floor);
  return worst + text;
}

}  // namespace reference
