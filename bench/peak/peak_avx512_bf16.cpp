// Peak loop for the native bf16 dot product.
#include <immintrin.h>

#include "peak_loops.h"

namespace fa::bench {

double dot_bf16_avx512(int64_t rounds) {
  constexpr int chains = 16;
  __m512 a[chains];
  for (int i = 0; i < chains; ++i) a[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512bh x = (__m512bh)_mm512_set1_epi32(0x3f003f00), y = (__m512bh)_mm512_set1_epi32(0x30003000);
  for (int64_t k = 0; k < rounds; ++k) {
#pragma GCC unroll 16
    for (int i = 0; i < chains; ++i) a[i] = _mm512_dpbf16_ps(a[i], x, y);
  }
  __m512 sum = a[0];
  for (int i = 1; i < chains; ++i) sum = _mm512_add_ps(sum, a[i]);
  asm volatile("" ::"m"(sum));
  return 4.0 * 16 * chains * static_cast<double>(rounds);
}

}  // namespace fa::bench
