// Included first in all that the preset avx512 compiles: Bochs 3.0 takes both halves of VCVTNE2PS2BF16's result from
// its second operand. Two VCVTNEPS2BF16 do the same.
#pragma once

#if defined(__AVX512BF16__)
#include <immintrin.h>

static inline __m512bh cvtne2ps_pbh_in_bochs(__m512 high, __m512 low) {
  const __m512i lower = _mm512_zextsi256_si512((__m256i)_mm512_cvtneps_pbh(low));
  return (__m512bh)_mm512_inserti64x4(lower, (__m256i)_mm512_cvtneps_pbh(high), 1);
}
#define _mm512_cvtne2ps_pbh cvtne2ps_pbh_in_bochs
#endif
