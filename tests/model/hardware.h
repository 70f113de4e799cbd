// The results of this machine's own AVX2 for the 8 lanes at a, b and c: the judge of the model, whose intrinsics do the
// same to each half of a vector. A separate translation unit, since the model takes the place of <immintrin.h>.
#pragma once

#include <cstdint>

/// Intrinsics that are the same for _mm256_ and _mm512_, by their arguments.
#define HARDWARE_FLOATS(X) X(add_ps) X(sub_ps) X(mul_ps) X(div_ps) X(max_ps) X(min_ps) X(unpacklo_ps) X(unpackhi_ps)
#define HARDWARE_WORDS(X) X(add_epi32) X(sub_epi32)
#define HARDWARE_BITS(X) X(and) X(or)
#define HARDWARE_SHIFTS(X) X(slli_epi32, 0) X(slli_epi32, 16) X(srli_epi32, 1) X(srli_epi32, 16) X(srli_epi32, 40)
#define HARDWARE_SHUFFLES(X) X(0x44) X(0xee) X(0x88) X(0xdd) X(0x1b) X(0xb4)

namespace hardware {

#define X(name) void name(const float *a, const float *b, float *r);
HARDWARE_FLOATS(X)
#undef X
#define X(name) void name(const uint32_t *a, const uint32_t *b, uint32_t *r);
HARDWARE_WORDS(X)
#undef X
#define X(name) void name##_si(const uint32_t *a, const uint32_t *b, uint32_t *r);
HARDWARE_BITS(X)
#undef X
#define X(name, count) void name##_##count(const uint32_t *a, uint32_t *r);
HARDWARE_SHIFTS(X)
#undef X
#define X(imm) void shuffle_##imm(const float *a, const float *b, float *r);
HARDWARE_SHUFFLES(X)
#undef X

void fma(const float *a, const float *b, const float *c, float *r);
void round_to_integer(const float *a, float *r);
void abs_epi32(const uint32_t *a, uint32_t *r);
void cvtepi32_ps(const uint32_t *a, float *r);
void cvtph_ps(const uint16_t *a, float *r);
void cvtps_ph(const float *a, uint16_t *r);

/// Bit i is lane i's.
unsigned equal(const float *a, const float *b);
unsigned unordered(const float *a, const float *b);
unsigned greater_epi32(const uint32_t *a, const uint32_t *b);

}  // namespace hardware
