#include "reference/merge.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "reference/number.h"

namespace reference {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double u32 = 0x1p-24;

double element(const fa_tensor &t, int64_t i, int64_t j, int64_t k, int64_t l) {
  const int64_t offset = i * t.stride[0] + j * t.stride[1] + k * t.stride[2] + l * t.stride[3];
  return load(static_cast<const char *>(t.data) + offset * dtype_bytes(t.dtype), t.dtype);
}

/// A row: its parts' weights, and the parts that count.
struct Row {
  std::vector<int> parts;             // those with keys
  std::vector<double> weight, below;  // of these: share of the sum; how far its logarithm is below the largest, natural
  double lse = -infinity, largest = -infinity;
};

Row row_of(const fa_merge_args &args, int64_t b, int64_t q, int64_t h) {
  const fa_tensor &mask = args.mask;
  const bool all = !mask.data || element(mask, mask.shape[0] == 1 ? 0 : b, mask.shape[1] == 1 ? 0 : h, q, 0) != 0;
  const double base = args.flags & FA_MERGE_BASE_2 ? std::log(2.0) : 1;
  Row row;
  bool wrong = false;
  std::vector<double> lse;
  for (int p = 0; p < (all ? args.num_parts : 1); ++p) {
    const double x = element(args.lses[p], b, h, q, 0);
    wrong = wrong || std::isnan(x) || x == infinity;
    if (x == -infinity) continue;
    row.parts.push_back(p);
    lse.push_back(x);
    row.largest = std::max(row.largest, x);
  }
  if (wrong) row.lse = row.largest = std::nan("");
  if (wrong || lse.empty()) return row;
  double sum = 0;
  for (const double x : lse) {
    row.below.push_back((row.largest - x) * base);
    row.weight.push_back(std::exp(-row.below.back()));
    sum += row.weight.back();
  }
  for (double &weight : row.weight) weight /= sum;
  row.lse = row.largest + std::log(sum) / base;
  return row;
}

struct Element {
  double value = 0, bound = 0;
};

Element element_of(const fa_merge_args &args, const Row &row, fa_dtype type, int64_t b, int64_t q, int64_t h,
                   int64_t d) {
  Element e;
  double special = 0;
  bool any_special = false;
  for (size_t i = 0; i < row.parts.size(); ++i) {
    const double x = element(args.outs[row.parts[i]], b, q, h, d);
    if (!std::isfinite(x)) {
      any_special = true;
      special += x;
    } else if (!std::isnan(row.lse)) {
      e.value += row.weight[i] * x;
      const double roundings = double(args.num_parts) + 16 + 4 * row.below[i];
      e.bound += (roundings * u32 * row.weight[i] + 0x1p-125) * std::abs(x);
    }
  }
  if (any_special) e.value = special;
  if (std::isnan(row.lse)) e.value = row.lse;
  e.bound += unit_roundoff(type) * std::abs(e.value) + smallest(type);
  return e;
}

std::string describe(const char *what, int64_t n, double got, double expected, double bound) {
  char text[200];
  std::snprintf(text, sizeof text, "%s: element %lld is %.9g, expected %.9g, error %.3g, bound %.3g", what,
                (long long)n, got, expected, std::abs(got - expected), bound);
  return text;
}

bool right(double got, double expected, double bound) {
  if (std::isnan(expected)) return std::isnan(got);
  return std::isfinite(expected) ? std::abs(got - expected) <= bound : got == expected;
}

}  // namespace

MergedExactly merged(const fa_desc &desc, const fa_merge_args &args) {
  const fa_dtype type = desc.dtype_out ? desc.dtype_out : desc.dtype_q;
  const int64_t(&n)[4] = args.out.shape;
  MergedExactly m;
  for (int64_t b = 0; b < n[0]; ++b)
    for (int64_t q = 0; q < n[1]; ++q)
      for (int64_t h = 0; h < n[2]; ++h) {
        const Row row = row_of(args, b, q, h);
        m.lse.push_back(row.lse);
        m.lse_bound.push_back(u32 * (2 * std::abs(row.largest) + 2 * std::abs(row.lse) + 32));
        for (int64_t d = 0; d < n[3]; ++d) {
          const Element e = element_of(args, row, type, b, q, h, d);
          m.out.push_back(e.value);
          m.out_bound.push_back(e.bound);
        }
      }
  return m;
}

std::string compare(const MergeInstance &instance, const MergedExactly &exact) {
  std::string fault;
  instance.merged_out().each([&](int64_t b, int64_t q, int64_t h, int64_t d, int64_t n) {
    const double got = instance.merged_out().get(b, q, h, d), want = exact.out[size_t(n)];
    if (fault.empty() && !right(got, want, exact.out_bound[size_t(n)]))
      fault = describe("out", n, got, want, exact.out_bound[size_t(n)]);
    if (d != 0 || !instance.c.lse) return;
    const size_t row = size_t(n / instance.c.dv);
    const double lse = instance.merged_lse().get(b, h, q, 0);
    if (fault.empty() && !right(lse, exact.lse[row], exact.lse_bound[row]))
      fault = describe("lse", int64_t(row), lse, exact.lse[row], exact.lse_bound[row]);
  });
  return fault;
}

}  // namespace reference
