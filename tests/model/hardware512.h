// The results of this machine's own AVX-512 for the 16 lanes at a, b and c, where it has that: the judge of the
// intrinsics that AVX2 has nothing like.
#pragma once

#include <cstdint>

#define HARDWARE_BLOCKS(X) X(0x44) X(0xee) X(0x88) X(0xdd) X(0x8d)

namespace hardware512 {

#define X(imm) void shuffle_f32x4_##imm(const float *a, const float *b, float *r);
HARDWARE_BLOCKS(X)
#undef X

void roundscale_ps(const float *a, float *r);
void reduce_ps(const float *a, float *r);
void scalef_ps(const float *a, const float *b, float *r);
void mask_blend_ps(uint16_t k, const float *a, const float *b, float *r);
void cvtepi32_epi16(const uint32_t *a, uint16_t *r);
void cvtepi32_epi8(const uint32_t *a, uint8_t *r);
void cvtps_epi32(const float *a, uint32_t *r);
void cvtepi16_epi8(const uint32_t *a, uint8_t *r);
void packs_epi32(const uint32_t *a, const uint32_t *b, uint32_t *r);
void packs_epi16(const uint32_t *a, const uint32_t *b, uint32_t *r);
void permutexvar_epi32(const uint32_t *index, const uint32_t *a, uint32_t *r);
void permutexvar_ps(const uint32_t *index, const float *a, float *r);
void permutexvar_epi16(const uint32_t *index, const uint32_t *a, uint32_t *r);
void permutex2var_epi16(const uint32_t *a, const uint32_t *index, const uint32_t *b, uint32_t *r);

/// With BF16.
void cvtne2ps_pbh(const float *a, const float *b, uint32_t *r);
void dpbf16_ps(const float *c, const uint32_t *a, const uint32_t *b, float *r);

/// With AMX-BF16: tiles of 16 x 16.
void tdpbf16ps(const float *c, const uint32_t *a, const uint32_t *b, float *r);

}  // namespace hardware512
