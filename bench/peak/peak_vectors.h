// The loops over vectors of any width. Of internal linkage: each unit compiles its own for its instruction set.
#pragma once

#include "peak_loops.h"

namespace fa::bench {
namespace {

/// Independent chains of `rounds` steps, a = step(a), in registers.
template <int chains, class Vector, class Step>
inline void run_chains(int64_t rounds, Step step) {
  Vector a[chains];
  for (int i = 0; i < chains; ++i) a[i] = Vector{} + static_cast<float>(i);
  for (int64_t k = 0; k < rounds; ++k) {
#pragma GCC unroll 16
    for (int i = 0; i < chains; ++i) a[i] = step(a[i]);
  }
  Vector sum = a[0];
  for (int i = 1; i < chains; ++i) sum += a[i];
  asm volatile("" ::"m"(sum));
}

/// Multiply-adds of vectors of that many bytes, which compilers contract where the instruction set has FMA. Returns the
/// number of operations.
template <int chains, int bytes>
inline double multiply_add(int64_t rounds) {
  typedef float Vector __attribute__((vector_size(bytes)));
  const Vector x = Vector{} + 0.999f, y = Vector{} + 1e-6f;
  run_chains<chains, Vector>(rounds, [&](Vector a) { return a * x + y; });
  return 2.0 * (bytes / 4) * chains * static_cast<double>(rounds);
}

/// Reads memory in order, and returns something that depends on all of it.
template <int sums, int bytes>
inline uint64_t read_in_order(const void *data, size_t size) {
  typedef uint64_t Words __attribute__((vector_size(bytes)));
  const char *p = static_cast<const char *>(data);
  Words a[sums] = {};
  for (size_t i = 0; i < size / (sums * bytes); ++i, p += sums * bytes) {
#pragma GCC unroll 8
    for (int j = 0; j < sums; ++j) {
      Words words;
      __builtin_memcpy(&words, p + j * bytes, bytes);
      a[j] ^= words;
    }
  }
  for (int j = 1; j < sums; ++j) a[0] ^= a[j];
  uint64_t all = 0;
  for (int i = 0; i < bytes / 8; ++i) all ^= a[0][i];
  return all;
}

}  // namespace
}  // namespace fa::bench
