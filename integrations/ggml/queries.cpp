#include "queries.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fa_ggml {

#if defined(__x86_64__)

namespace {

[[gnu::target("avx,f16c")]] bool to_f16_by_f16c(const float *from, int64_t n, uint16_t *to) {
  const __m256 largest = _mm256_set1_ps(65504), sign = _mm256_set1_ps(-0.0F);
  __m256 beyond = _mm256_setzero_ps();
  for (int64_t i = 0; i < n; i += 8) {
    const auto count = size_t(n - i < 8 ? n - i : 8);
    float eight[8] = {};
    std::memcpy(eight, from + i, count * sizeof(float));
    const __m256 x = _mm256_loadu_ps(eight);
    beyond = _mm256_or_ps(beyond, _mm256_cmp_ps(_mm256_andnot_ps(sign, x), largest, _CMP_NLE_UQ));
    const __m128i halves = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
    std::memcpy(to + i, &halves, count * sizeof(uint16_t));
  }
  return _mm256_movemask_ps(beyond) == 0;
}

}  // namespace

bool to_f16(const float *from, int64_t n, uint16_t *to) {
  return __builtin_cpu_supports("avx2") && to_f16_by_f16c(from, n, to);
}

#else

bool to_f16(const float *, int64_t, uint16_t *) {
  return false;
}

#endif

}  // namespace fa_ggml
