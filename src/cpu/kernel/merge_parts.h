// fa_merge, row by row. The weights of as many rows as a vector has lanes are computed at once: lanes are rows. A row's
// values are then a weighted sum of the parts' rows, where lanes are its elements.
#pragma once

#include "cpu/kernel/convert.h"
#include "cpu/merge.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Some rows, one a lane: the log-sum-exps of their parts, -inf where a part is left out, and the parts' weights.
struct MergeBlock {
  alignas(64) float lse[FA_MAX_PARTS][width];
  alignas(64) float weight[FA_MAX_PARTS][width];
  alignas(64) float merged[width];  // log-sum-exps
};

inline void load_block(const MergeCall &call, const MergeRow *row, int rows, MergeBlock &block) {
  for (int p = 0; p < call.num_parts; p++) {
    const View &lse = call.lses[p];
    for (int i = 0; i < rows; i++) block.lse[p][i] = *lse.at<const float>(row[i].batch, row[i].head, row[i].query);
    for (int i = rows; i < width; i++) block.lse[p][i] = -infinity;
  }
  for (int i = 0; call.mask && i < rows; i++)
    for (int p = 1; p < call.num_parts && *call.mask.at(row[i].batch, row[i].head, row[i].query) == 0; p++)
      block.lse[p][i] = -infinity;
}

/// Weights that add up to 1, or that are not used where no part has keys, or NaN where a log-sum-exp is NaN or +inf.
inline void find_weights(const MergeCall &call, MergeBlock &block) {
  const Vec no_keys = Simd::set1(-infinity), unit = Simd::set1(call.base_2 ? 1.0f : log2_e);
  Vec max = no_keys, sum = Simd::zero();
  for (int p = 0; p < call.num_parts; p++) max = Simd::max(Simd::load(block.lse[p]), max);
  const Vec finite = Simd::select(Simd::equal(max, no_keys), Simd::zero(), max);
  for (int p = 0; p < call.num_parts; p++) {
    const Vec weight = exp2(Simd::mul(Simd::sub(Simd::load(block.lse[p]), finite), unit));
    Simd::store(block.weight[p], weight);
    sum = Simd::add(sum, weight);
  }
  const Vec factor = Simd::div(Simd::set1(1.0f), sum);
  for (int p = 0; p < call.num_parts; p++) Simd::store(block.weight[p], Simd::mul(Simd::load(block.weight[p]), factor));
  const Vec merged = Simd::fma(log(sum), Simd::set1(call.base_2 ? log2_e : 1.0f), max);
  Simd::store(block.merged, Simd::select(Simd::equal(sum, sum), merged, sum));
}

/// Whether all lanes are 0, of either sign.
inline bool is_zero(Vec x) {
  alignas(64) float lanes_of[width];
  Simd::store(lanes_of, x);
  uint64_t words[width / 2], bits = 0;
  __builtin_memcpy(words, lanes_of, sizeof words);
  for (const uint64_t word : words) bits |= word;
  return (bits & 0x7fffffff7fffffff) == 0;
}

/// The parts of a row that have keys.
struct Operands {
  const View *part[FA_MAX_PARTS];
  const char *from[FA_MAX_PARTS];
  float weight[FA_MAX_PARTS];
  int count = 0;

  Operands(const MergeCall &call, const MergeRow &row, const MergeBlock &block, int lane) {
    for (int p = 0; p < call.num_parts; p++) {
      if (block.lse[p][lane] == -infinity) continue;
      part[count] = &call.outs[p];
      from[count] = call.outs[p].at(row.batch, row.query, row.head);
      weight[count++] = block.weight[p][lane];
    }
  }
};

/// to[i] = sum_p weight_p from_p[i] for `vectors` vectors from element i on. Adds 0 times each to nonfinite.
template <fa_dtype dtype, int vectors>
inline void sum_vectors(float *to, const Operands &o, int64_t i, Vec &nonfinite) {
  constexpr int64_t bytes = dtype_bytes(dtype);
  Vec sum[vectors];
  const Vec first = Simd::set1(o.weight[0]);
  FA_UNROLL for (int v = 0; v < vectors; v++) sum[v] =
      Simd::mul(first, load_vector<dtype>(o.from[0] + (i + v * width) * bytes));
  for (int p = 1; p < o.count; p++) {
    const Vec weight = Simd::set1(o.weight[p]);
    FA_UNROLL for (int v = 0; v < vectors; v++) sum[v] =
        Simd::fma(weight, load_vector<dtype>(o.from[p] + (i + v * width) * bytes), sum[v]);
  }
  FA_UNROLL for (int v = 0; v < vectors; v++) {
    Simd::store(to + i + v * width, sum[v]);
    nonfinite = Simd::fma(sum[v], Simd::zero(), nonfinite);
  }
}

/// to[0, n) of parts of one type with unit strides. False where an element is not finite.
template <fa_dtype dtype>
inline bool sum_unit_rows(float *to, const Operands &o, int64_t n) {
  constexpr int64_t bytes = dtype_bytes(dtype);
  Vec nonfinite = Simd::zero();
  int64_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width) sum_vectors<dtype, 4>(to, o, i, nonfinite);
  for (; i + width <= n; i += width) sum_vectors<dtype, 1>(to, o, i, nonfinite);
  float nonfinite_tail = 0;
  for (; i < n; i++) {
    float sum = 0;
    for (int p = 0; p < o.count; p++) sum += o.weight[p] * load_element<dtype>(o.from[p] + i * bytes);
    to[i] = sum;
    nonfinite_tail += sum * 0;
  }
  return is_zero(nonfinite) && nonfinite_tail == 0;
}

/// to[0, n) of any parts.
inline bool sum_rows(float *to, const Operands &o, int64_t n) {
  const auto is_alike = [&](const View &part) {
    return part.dtype == o.part[0]->dtype && part.stride[3] == dtype_bytes(part.dtype);
  };
  bool alike = true;
  for (int p = 0; p < o.count; p++) alike = alike && is_alike(*o.part[p]);
  if (alike && o.count > 0)
    return with_compute_type(o.part[0]->dtype,
                             [&](auto type) { return sum_unit_rows<decltype(type)::dtype>(to, o, n); });
  alignas(64) float row[FA_MAX_HEAD_DIM];
  for (int64_t i = 0; i < n; i++) to[i] = 0;
  for (int p = 0; p < o.count; p++) {
    load_row(row, o.from[p], o.part[p]->stride[3], o.part[p]->dtype, n);
    for (int64_t i = 0; i < n; i++) to[i] += o.weight[p] * row[i];
  }
  return !any_special(to, n);
}

/// The elements of a row that are not finite, again: NaN and infinities reach them whatever their weight.
inline void add_special_values(const MergeCall &call, const MergeRow &row, const MergeBlock &block, int lane,
                               float *values) {
  for (int64_t d = 0; d < call.attention->head_dim_v; d++) {
    if (!any_special(values + d, 1)) continue;
    float special = 0;
    for (int p = 0; p < call.num_parts; p++) {
      if (block.lse[p][lane] == -infinity) continue;
      const float x = load_element(call.outs[p].at(row.batch, row.query, row.head, d), call.outs[p].dtype);
      special += any_special(&x, 1) ? x : 0;
    }
    if (special != 0) values[d] = special + (block.merged[lane] - block.merged[lane]);
  }
}

inline void merge_row(const MergeCall &call, const MergeRow &row, const MergeBlock &block, int lane) {
  alignas(64) float values[FA_MAX_HEAD_DIM];
  const int64_t dim = call.attention->head_dim_v;
  if (!sum_rows(values, Operands(call, row, block, lane), dim)) add_special_values(call, row, block, lane, values);
  store_row(call.out.at(row.batch, row.query, row.head), call.out.stride[3], call.out.dtype, values, 1, dim);
  if (call.lse) *call.lse.at<float>(row.batch, row.head, row.query) = block.merged[lane];
}

/// Merges rows begin .. end - 1.
inline void merge_parts(const MergeCall &call, int64_t begin, int64_t end) {
  MergeRows rows(call, begin);
  for (int64_t first = begin; first < end; first += width) {
    const int count = static_cast<int>(smaller<int64_t>(width, end - first));
    MergeRow row[width];
    for (int i = 0; i < count; i++) row[i] = rows.next();
    MergeBlock block;
    load_block(call, row, count, block);
    find_weights(call, block);
    for (int i = 0; i < count; i++) merge_row(call, row[i], block, i);
  }
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
