// The keys and values of a case of `fa bench`, as a cache stores them.
#pragma once

#include <fa.h>

#include <vector>

#include "bench_case.h"
#include "memory_move.h"
#include "npy.h"

namespace fa::tool {

/// Nearly normal numbers.
Array random_array(fa_dtype dtype, std::vector<int64_t> shape, uint64_t seed);

/// An array of four dimensions, contiguous.
fa_tensor tensor_of(Array *array, fa_dtype dtype);

/// As many caches as the case has; nearly normal numbers in them, codes with scales that fit.
class BenchCaches {
 public:
  explicit BenchCaches(const BenchCase &c);
  BenchCaches(const BenchCaches &) = delete;
  BenchCaches &operator=(const BenchCaches &) = delete;

  /// One of them as tensors; scales and zeros are absent where the type has none.
  struct Tensors {
    fa_tensor k = {}, v = {}, k_scale = {}, v_scale = {}, k_zero = {}, v_zero = {};
  };
  size_t count() const { return caches_.size(); }
  Tensors tensors(size_t number);

  /// Its memory, to be read plainly.
  std::vector<MemoryMove> moves(size_t number) const;

 private:
  struct Cache {
    Array k, v, k_scale, v_scale, k_zero, v_zero;
  };
  Array rows(int64_t dim, uint64_t seed) const;
  fa_tensor rows_tensor(Array *array, int64_t dim) const;

  const BenchCase c_;
  std::vector<Cache> caches_;
};

}  // namespace fa::tool
