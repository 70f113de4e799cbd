#include "model/hardware512.h"

#include <immintrin.h>

namespace hardware512 {

#define X(imm)                                                                              \
  void shuffle_f32x4_##imm(const float *a, const float *b, float *r) {                      \
    _mm512_storeu_ps(r, _mm512_shuffle_f32x4(_mm512_loadu_ps(a), _mm512_loadu_ps(b), imm)); \
  }
HARDWARE_BLOCKS(X)
#undef X

void roundscale_ps(const float *a, float *r) {
  _mm512_storeu_ps(r, _mm512_roundscale_ps(_mm512_loadu_ps(a), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
void reduce_ps(const float *a, float *r) {
  _mm512_storeu_ps(r, _mm512_reduce_ps(_mm512_loadu_ps(a), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
void scalef_ps(const float *a, const float *b, float *r) {
  _mm512_storeu_ps(r, _mm512_scalef_ps(_mm512_loadu_ps(a), _mm512_loadu_ps(b)));
}
void mask_blend_ps(uint16_t k, const float *a, const float *b, float *r) {
  _mm512_storeu_ps(r, _mm512_mask_blend_ps(k, _mm512_loadu_ps(a), _mm512_loadu_ps(b)));
}
void cvtepi32_epi16(const uint32_t *a, uint16_t *r) {
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(r), _mm512_cvtepi32_epi16(_mm512_loadu_si512(a)));
}
void cvtepi32_epi8(const uint32_t *a, uint8_t *r) {
  _mm_storeu_si128(reinterpret_cast<__m128i *>(r), _mm512_cvtepi32_epi8(_mm512_loadu_si512(a)));
}
void cvtps_epi32(const float *a, uint32_t *r) {
  _mm512_storeu_si512(r, _mm512_cvtps_epi32(_mm512_loadu_ps(a)));
}
void cvtepi16_epi8(const uint32_t *a, uint8_t *r) {
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(r), _mm512_cvtepi16_epi8(_mm512_loadu_si512(a)));
}
void packs_epi32(const uint32_t *a, const uint32_t *b, uint32_t *r) {
  _mm512_storeu_si512(r, _mm512_packs_epi32(_mm512_loadu_si512(a), _mm512_loadu_si512(b)));
}
void packs_epi16(const uint32_t *a, const uint32_t *b, uint32_t *r) {
  _mm512_storeu_si512(r, _mm512_packs_epi16(_mm512_loadu_si512(a), _mm512_loadu_si512(b)));
}
void permutexvar_epi32(const uint32_t *index, const uint32_t *a, uint32_t *r) {
  _mm512_storeu_si512(r, _mm512_permutexvar_epi32(_mm512_loadu_si512(index), _mm512_loadu_si512(a)));
}
void permutexvar_ps(const uint32_t *index, const float *a, float *r) {
  _mm512_storeu_ps(r, _mm512_permutexvar_ps(_mm512_loadu_si512(index), _mm512_loadu_ps(a)));
}
void permutexvar_epi16(const uint32_t *index, const uint32_t *a, uint32_t *r) {
  _mm512_storeu_si512(r, _mm512_permutexvar_epi16(_mm512_loadu_si512(index), _mm512_loadu_si512(a)));
}
void permutex2var_epi16(const uint32_t *a, const uint32_t *index, const uint32_t *b, uint32_t *r) {
  _mm512_storeu_si512(
      r, _mm512_permutex2var_epi16(_mm512_loadu_si512(a), _mm512_loadu_si512(index), _mm512_loadu_si512(b)));
}

void cvtne2ps_pbh(const float *a, const float *b, uint32_t *r) {
  _mm512_storeu_si512(r, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(a), _mm512_loadu_ps(b)));
}
void dpbf16_ps(const float *c, const uint32_t *a, const uint32_t *b, float *r) {
  const auto pairs = [](const uint32_t *p) { return (__m512bh)_mm512_loadu_si512(p); };
  _mm512_storeu_ps(r, _mm512_dpbf16_ps(_mm512_loadu_ps(c), pairs(a), pairs(b)));
}

void tdpbf16ps(const float *c, const uint32_t *a, const uint32_t *b, float *r) {
  struct alignas(64) {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64};
    uint8_t rows[16] = {16, 16, 16};
  } const shape;
  asm volatile(
      "ldtilecfg %0\n\ttileloadd (%1,%4,1), %%tmm0\n\ttileloadd (%2,%4,1), %%tmm1\n\t"
      "tileloadd (%3,%4,1), %%tmm2\n\ttdpbf16ps %%tmm2, %%tmm1, %%tmm0\n\ttilestored %%tmm0, (%5,%4,1)\n\ttilerelease"
      :
      : "m"(shape), "r"(c), "r"(a), "r"(b), "r"(int64_t{64}), "r"(r)
      : "memory");
}

}  // namespace hardware512
