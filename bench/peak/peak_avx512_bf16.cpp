// Peak loop for the native bf16 dot product.
#include <immintrin.h>

#include "peak_vectors.h"

namespace fa::bench {

double dot_bf16_avx512(int64_t rounds) {
  constexpr int chains = 16;
  const __m512bh x = (__m512bh)_mm512_set1_epi32(0x3f003f00), y = (__m512bh)_mm512_set1_epi32(0x30003000);
  run_chains<chains, __m512>(rounds, [&](__m512 a) { return _mm512_dpbf16_ps(a, x, y); });
  return 4.0 * 16 * chains * static_cast<double>(rounds);
}

}  // namespace fa::bench
