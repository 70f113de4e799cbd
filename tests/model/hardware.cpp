#include "model/hardware.h"

#include <immintrin.h>

namespace hardware {
namespace {

__m256 load(const float *p) {
  return _mm256_loadu_ps(p);
}
__m256i load(const uint32_t *p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
}
void store(float *p, __m256 a) {
  _mm256_storeu_ps(p, a);
}
void store(uint32_t *p, __m256i a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), a);
}
unsigned bits_of(__m256 lanes) {
  return static_cast<unsigned>(_mm256_movemask_ps(lanes));
}

}  // namespace

#define X(name)                                         \
  void name(const float *a, const float *b, float *r) { \
    store(r, _mm256_##name(load(a), load(b)));          \
  }
HARDWARE_FLOATS(X)
#undef X
#define X(name)                                                  \
  void name(const uint32_t *a, const uint32_t *b, uint32_t *r) { \
    store(r, _mm256_##name(load(a), load(b)));                   \
  }
HARDWARE_WORDS(X)
#undef X
#define X(name)                                                       \
  void name##_si(const uint32_t *a, const uint32_t *b, uint32_t *r) { \
    store(r, _mm256_##name##_si256(load(a), load(b)));                \
  }
HARDWARE_BITS(X)
#undef X
#define X(name, count)                                  \
  void name##_##count(const uint32_t *a, uint32_t *r) { \
    store(r, _mm256_##name(load(a), count));            \
  }
HARDWARE_SHIFTS(X)
#undef X
#define X(imm)                                                   \
  void shuffle_##imm(const float *a, const float *b, float *r) { \
    store(r, _mm256_shuffle_ps(load(a), load(b), imm));          \
  }
HARDWARE_SHUFFLES(X)
#undef X

void fma(const float *a, const float *b, const float *c, float *r) {
  store(r, _mm256_fmadd_ps(load(a), load(b), load(c)));
}
void round_to_integer(const float *a, float *r) {
  store(r, _mm256_round_ps(load(a), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
void abs_epi32(const uint32_t *a, uint32_t *r) {
  store(r, _mm256_abs_epi32(load(a)));
}
void cvtepi32_ps(const uint32_t *a, float *r) {
  store(r, _mm256_cvtepi32_ps(load(a)));
}
void cvtph_ps(const uint16_t *a, float *r) {
  store(r, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(a))));
}
void cvtps_ph(const float *a, uint16_t *r) {
  _mm_storeu_si128(reinterpret_cast<__m128i *>(r), _mm256_cvtps_ph(load(a), _MM_FROUND_TO_NEAREST_INT));
}

unsigned equal(const float *a, const float *b) {
  return bits_of(_mm256_cmp_ps(load(a), load(b), _CMP_EQ_OQ));
}
unsigned unordered(const float *a, const float *b) {
  return bits_of(_mm256_cmp_ps(load(a), load(b), _CMP_UNORD_Q));
}
unsigned greater_epi32(const uint32_t *a, const uint32_t *b) {
  return bits_of(_mm256_castsi256_ps(_mm256_cmpgt_epi32(load(a), load(b))));
}

}  // namespace hardware
