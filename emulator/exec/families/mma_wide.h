// mma.sync of 16-bit elements into floats, on machines with AVX-512: sixteen lanes of an accumulator's row, which are
// four rows of the matrix by four of its columns, are one vector. Each result is the same sum in the same order as in
// mma.h.
#pragma once

#include "exec/families/mma.h"

#if defined(__AVX512F__) && defined(__AVX512BW__)
#define FA_EMU_WIDE_MMA 1

namespace fa::emu::mma {

/// Sixteen elements as floats.
template <class Element>
inline __m512 widen(__m256i bits) {
  if constexpr (std::is_same_v<Element, Half>)
    return _mm512_cvtph_ps(bits);
  else
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

/// Four rows of eight elements each: columns 0 to 3 of all of them, and 4 to 7.
template <class Element>
inline void unpack_rows(const uint16_t *tile, __m512 &low, __m512 &high) {
  __m512 two = widen<Element>(_mm256_load_si256(reinterpret_cast<const __m256i *>(tile)));
  __m512 next = widen<Element>(_mm256_load_si256(reinterpret_cast<const __m256i *>(tile + 16)));
  low = _mm512_shuffle_f32x4(two, next, 0x88);
  high = _mm512_shuffle_f32x4(two, next, 0xdd);
}

/// A tile of b, eight columns of eight elements: rows of the matrix, their even columns before their odd ones.
template <class Element>
inline void unpack_tile(const uint16_t *tile, float *rows) {
  const __m512i first = _mm512_load_si512(tile), second = _mm512_load_si512(tile + 32);
  alignas(64) static constexpr uint16_t order[32] = {0, 16, 32, 48, 8,  24, 40, 56, 1, 17, 33, 49, 9,  25, 41, 57,
                                                     2, 18, 34, 50, 10, 26, 42, 58, 3, 19, 35, 51, 11, 27, 43, 59};
  const __m512i upper = _mm512_load_si512(order), lower = _mm512_add_epi16(upper, _mm512_set1_epi16(4));
  const __m512i halves[] = {_mm512_permutex2var_epi16(first, upper, second),
                            _mm512_permutex2var_epi16(first, lower, second)};
  for (int i = 0; i < 2; i++) {
    _mm512_store_ps(rows + 32 * i, widen<Element>(_mm512_castsi512_si256(halves[i])));
    _mm512_store_ps(rows + 32 * i + 16, widen<Element>(_mm512_extracti64x4_epi64(halves[i], 1)));
  }
}

/// sum[half][part][parity] += a b, over one tile: row, then four, column k of a, and row k of b.
template <int k>
inline void step(const __m512 (&a)[2][2][2], const float *b, __m512 (&sum)[2][2][2]) {
  const __m512 even = _mm512_broadcast_f32x4(_mm_load_ps(b + 8 * k)),
               odd = _mm512_broadcast_f32x4(_mm_load_ps(b + 8 * k + 4));
#pragma GCC unroll 2
  for (int half = 0; half < 2; half++)
#pragma GCC unroll 2
    for (int part = 0; part < 2; part++) {
      const __m512 of = _mm512_permute_ps(a[half][part][k / 4], k % 4 * 0x55);
      sum[half][part][0] = _mm512_fmadd_ps(of, even, sum[half][part][0]);
      sum[half][part][1] = _mm512_fmadd_ps(of, odd, sum[half][part][1]);
    }
}

/// As multiply<Element, Pairs<float>, 16, depth>.
template <class Element, int depth>
void multiply_wide(Warp &warp, const Instruction &instruction, uint32_t) {
  constexpr int tiles = depth / 8;
  const Slot *d = warp.list(instruction), *as = d + 4, *bs = as + 2 * tiles, *cs = bs + tiles;
  __m512 sum[2][2][2];  // rows from 8 on; of them, from 4 on; odd columns
  alignas(64) float b[tiles][64];
  for (int r = 0; r < tiles; r++) unpack_tile<Element>(warp.row<uint16_t>(bs[r]), b[r]);
  for (int i = 0; i < 8; i++)
    sum[i >> 2][i & 1][i >> 1 & 1] = _mm512_load_ps(warp.row<float>(cs[i >> 1]) + 16 * (i & 1));
#pragma GCC unroll 2
  for (int r = 0; r < tiles; r++) {
    __m512 a[2][2][2];
    for (int half = 0; half < 2; half++) {
      const uint16_t *tile = warp.row<uint16_t>(as[half + 2 * r]);
      for (int part = 0; part < 2; part++) unpack_rows<Element>(tile + 32 * part, a[half][part][0], a[half][part][1]);
    }
    step<0>(a, b[r], sum);
    step<1>(a, b[r], sum);
    step<2>(a, b[r], sum);
    step<3>(a, b[r], sum);
    step<4>(a, b[r], sum);
    step<5>(a, b[r], sum);
    step<6>(a, b[r], sum);
    step<7>(a, b[r], sum);
  }
  for (int i = 0; i < 8; i++)
    _mm512_store_ps(warp.row<float>(d[i >> 1]) + 16 * (i & 1), sum[i >> 2][i & 1][i >> 1 & 1]);
}

}  // namespace fa::emu::mma
#endif
