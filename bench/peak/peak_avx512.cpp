// Peak loops for AVX-512.
#include <immintrin.h>

#include "peak_loops.h"

namespace fa::bench {

double fma_avx512(int64_t rounds) {
  constexpr int chains = 16;
  __m512 a[chains];
  for (int i = 0; i < chains; ++i) a[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-6f);
  for (int64_t k = 0; k < rounds; ++k) {
#pragma GCC unroll 16
    for (int i = 0; i < chains; ++i) a[i] = _mm512_fmadd_ps(a[i], x, y);
  }
  __m512 sum = a[0];
  for (int i = 1; i < chains; ++i) sum = _mm512_add_ps(sum, a[i]);
  asm volatile("" ::"m"(sum));
  return 2.0 * 16 * chains * static_cast<double>(rounds);
}

uint64_t read_avx512(const void *data, size_t bytes) {
  const char *p = static_cast<const char *>(data);
  __m512i a[8];
  for (__m512i &v : a) v = _mm512_setzero_si512();
  for (size_t i = 0; i < bytes / 512; ++i, p += 512) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) a[j] = _mm512_xor_si512(a[j], _mm512_loadu_si512(p + 64 * j));
  }
  for (int j = 1; j < 8; ++j) a[0] = _mm512_xor_si512(a[0], a[j]);
  uint64_t words[8];
  _mm512_storeu_si512(words, a[0]);
  return words[0] ^ words[3] ^ words[7];
}

}  // namespace fa::bench
