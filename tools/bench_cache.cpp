#include "bench_cache.h"

#include <algorithm>
#include <cstring>

#include "library.h"
#include "reference/codes.h"
#include "reference/random.h"

namespace fa::tool {

namespace {

/// Fills an array with copies of its first `period` bytes.
void repeat(size_t period, Array *array) {
  for (size_t at = period; at < array->bytes.size(); at += period)
    std::memcpy(&array->bytes[at], array->bytes.data(), std::min(period, array->bytes.size() - at));
}

}  // namespace

Array random_array(fa_dtype dtype, std::vector<int64_t> shape, uint64_t seed) {
  Array array = make_array(npy_type_of(dtype), std::move(shape));
  const auto step = static_cast<size_t>(reference::dtype_bytes(dtype));
  const size_t period = std::min(step * 65521, array.bytes.size());  // a prime: rows do not repeat
  for (size_t at = 0; at < period; at += step)
    reference::store(&array.bytes[at], dtype, reference::normal(reference::hash(seed + at)));
  repeat(period, &array);
  return array;
}

fa_tensor tensor_of(Array *array, fa_dtype dtype) {
  fa_tensor tensor = {};
  const std::vector<int64_t> &s = array->shape;
  fa_tensor_init(&tensor, array->bytes.data(), dtype, s[0], s[1], s[2], s[3]);
  return tensor;
}

namespace {

/// How many codes apart 0 and 1 are.
double codes_per_unit(fa_dtype dtype) {
  return reference::largest_code(dtype) / 4;  // few of the numbers are beyond 4
}

/// Writes one row's codes, or its blocks.
void store_row(std::byte *row, fa_dtype dtype, int64_t dim, uint64_t seed) {
  if (reference::codes_of(dtype)->block) {
    double x[32];
    for (int64_t d = 0; d + 32 <= dim; d += 32) {
      for (int64_t i = 0; i < 32; ++i) x[i] = reference::normal(reference::hash(seed + static_cast<uint64_t>(d + i)));
      reference::store_block(row + reference::row_bytes(dtype, d), dtype, x);
    }
    return;
  }
  for (int64_t d = 0; d < dim; ++d) {
    const double x = reference::normal(reference::hash(seed + static_cast<uint64_t>(d)));
    reference::store_code(row, dtype, d, reference::middle_code(dtype) + x * codes_per_unit(dtype));
  }
}

}  // namespace

Array BenchCaches::rows(int64_t dim, uint64_t seed) const {
  const fa_dtype dtype = c_.cache();
  if (!reference::codes_of(dtype)) return random_array(dtype, {c_.batch, c_.rows_k, c_.heads_kv, dim}, seed);
  const int64_t row = reference::row_bytes(dtype, dim);
  Array array = make_array(NpyType::u8, {c_.batch, c_.rows_k, c_.heads_kv, row});
  const size_t period = std::min(static_cast<size_t>(row) * 509, array.bytes.size());
  for (size_t at = 0; at < period; at += static_cast<size_t>(row))
    store_row(&array.bytes[at], dtype, dim, seed + at * 8);
  repeat(period, &array);
  return array;
}

BenchCaches::BenchCaches(const BenchCase &c) : c_(c) {
  const auto factors = [&](double value) {
    Array array = make_array(NpyType::f32, {c.batch, c.rows_k, c.heads_kv, 1});
    std::fill_n(array.data<float>(), array.elements(), static_cast<float>(value));
    return array;
  };
  for (int64_t i = 0; i < caches_of(c); ++i) {
    if (i == 0) {
      Cache cache = {rows(c.dim, uint64_t{1} << 40), rows(c.dim_v, uint64_t{1} << 41), {}, {}, {}, {}};
      if (is_scaled(c.cache())) cache.k_scale = cache.v_scale = factors(1 / codes_per_unit(c.cache()));
      if (const double middle = reference::middle_code(c.cache()); middle != 0)
        cache.k_zero = cache.v_zero = factors(middle);
      caches_.push_back(std::move(cache));
    } else {
      caches_.push_back(caches_.front());
    }
  }
}

fa_tensor BenchCaches::rows_tensor(Array *array, int64_t dim) const {
  fa_tensor tensor = {};
  fa_tensor_init(&tensor, array->bytes.data(), c_.cache(), c_.batch, c_.rows_k, c_.heads_kv, dim);
  return tensor;
}

BenchCaches::Tensors BenchCaches::tensors(size_t number) {
  Cache &cache = caches_[number];
  const auto factor = [](Array *array) { return array->shape.empty() ? fa_tensor{} : tensor_of(array, FA_F32); };
  return {rows_tensor(&cache.k, c_.dim), rows_tensor(&cache.v, c_.dim_v), factor(&cache.k_scale),
          factor(&cache.v_scale),        factor(&cache.k_zero),           factor(&cache.v_zero)};
}

std::vector<MemoryMove> BenchCaches::moves(size_t number) const {
  const Cache &cache = caches_[number];
  std::vector<MemoryMove> all;
  for (const Array *each : {&cache.k, &cache.v, &cache.k_scale, &cache.v_scale, &cache.k_zero, &cache.v_zero}) {
    if (!each->bytes.empty()) all.push_back({each->bytes.data(), each->bytes.size()});
  }
  return all;
}

}  // namespace fa::tool
