// Peak loops for AVX2 and FMA.
#include <immintrin.h>

#include "peak_loops.h"

namespace fa::bench {

double fma_avx2(int64_t rounds) {
  constexpr int chains = 12;
  __m256 a[chains];
  for (int i = 0; i < chains; ++i) a[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-6f);
  for (int64_t k = 0; k < rounds; ++k) {
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) a[i] = _mm256_fmadd_ps(a[i], x, y);
  }
  __m256 sum = a[0];
  for (int i = 1; i < chains; ++i) sum = _mm256_add_ps(sum, a[i]);
  asm volatile("" ::"m"(sum));
  return 2.0 * 8 * chains * static_cast<double>(rounds);
}

uint64_t read_avx2(const void *data, size_t bytes) {
  const __m256i *p = static_cast<const __m256i *>(data);
  __m256i a[8];
  for (__m256i &v : a) v = _mm256_setzero_si256();
  for (size_t i = 0; i < bytes / 256; ++i, p += 8) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) a[j] = _mm256_xor_si256(a[j], _mm256_loadu_si256(p + j));
  }
  for (int j = 1; j < 8; ++j) a[0] = _mm256_xor_si256(a[0], a[j]);
  return static_cast<uint64_t>(_mm256_extract_epi64(a[0], 0) ^ _mm256_extract_epi64(a[0], 3));
}

}  // namespace fa::bench
