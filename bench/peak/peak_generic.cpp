// Peak loops for any architecture: 128-bit compiler vectors, contracted to FMA where the baseline has it (NEON).
#include "peak_loops.h"

namespace fa::bench {

typedef float Vector __attribute__((vector_size(16)));
typedef uint64_t Words __attribute__((vector_size(16)));

double fma_generic(int64_t rounds) {
  constexpr int chains = 12;
  Vector a[chains];
  for (int i = 0; i < chains; ++i) a[i] = Vector{} + static_cast<float>(i);
  const Vector x = Vector{} + 0.999f, y = Vector{} + 1e-6f;
  for (int64_t k = 0; k < rounds; ++k) {
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) a[i] = a[i] * x + y;
  }
  Vector sum{};
  for (int i = 0; i < chains; ++i) sum += a[i];
  asm volatile("" ::"m"(sum));
  return 2.0 * 4 * chains * static_cast<double>(rounds);
}

uint64_t read_generic(const void *data, size_t bytes) {
  const Words *p = static_cast<const Words *>(data);
  Words a{}, b{}, c{}, d{};
  for (size_t i = 0; i < bytes / 64; ++i, p += 4) {
    a ^= p[0];
    b ^= p[1];
    c ^= p[2];
    d ^= p[3];
  }
  a ^= b ^ c ^ d;
  return a[0] ^ a[1];
}

uint64_t read_streams_generic(const void *data, size_t bytes) {
  constexpr int streams = 8;
  const Words *p = static_cast<const Words *>(data);
  const size_t lines = bytes / streams / 64;
  Words a[streams] = {};
  for (size_t i = 0; i < lines; ++i, p += 4) {
#pragma GCC unroll 8
    for (int j = 0; j < streams; ++j) {
      const Words *line = p + 4 * lines * j;
      a[j] ^= line[0] ^ line[1] ^ line[2] ^ line[3];
    }
  }
  for (int j = 1; j < streams; ++j) a[0] ^= a[j];
  return a[0][0] ^ a[0][1];
}

}  // namespace fa::bench
