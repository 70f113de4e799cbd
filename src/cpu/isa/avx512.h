// AVX-512 (F, BW, DQ, VL): 16 lanes, 32 registers.
#pragma once

#if defined(FA_MODEL_AVX512)
#include "model/avx512_model.h"  // tests, on any machine
#else
#include <immintrin.h>
#endif

#include <cstdint>

namespace fa::cpu::FA_ISA {
namespace {

struct Avx512 {
  using Vec = __m512;
  using Mask = __mmask16;
  static constexpr int width = 16;
  static constexpr int tile_vectors = 4;  // 4 keys x 4 vectors of queries: 16 accumulators
  static constexpr int subtiles = 2, max_subtiles = 2;
  static constexpr int pack = 1;  // operands of the products are f32
  static constexpr int parts = 1;
  static constexpr int decode_rows = 16;
  static constexpr int group_rows = 8;  // that share a load in decode
  static constexpr bool fused = true;   // fma rounds once

  static Vec load(const float *p) { return _mm512_loadu_ps(p); }
  static void store(float *p, Vec a) { _mm512_storeu_ps(p, a); }
  static Vec zero() { return _mm512_setzero_ps(); }
  static Vec set1(float a) { return _mm512_set1_ps(a); }
  static Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  static Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
  static Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  static Vec multiply_add(Vec a, Vec b, Vec c) { return fma(a, b, c); }
  static Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }  // b when either is NaN
  static Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }  // b when either is NaN

  static Mask equal(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
  static Vec select(Mask m, Vec yes, Vec no) { return _mm512_mask_blend_ps(m, no, yes); }

  static Mask between(const int32_t *low, const int32_t *high, int32_t j) {
    const __m512i key = _mm512_set1_epi32(j);
    return _mm512_cmple_epi32_mask(_mm512_loadu_si512(low), key) &
           _mm512_cmplt_epi32_mask(key, _mm512_loadu_si512(high));
  }
  static Vec distance(const int32_t *a, int32_t j) {
    return _mm512_cvtepi32_ps(_mm512_abs_epi32(_mm512_sub_epi32(_mm512_loadu_si512(a), _mm512_set1_epi32(j))));
  }

  /// No bounds on x: scalef saturates.
  static void split(Vec x, Vec &n, Vec &r) {
    r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);  // 0 at -inf
    n = _mm512_sub_ps(x, r);
  }
  static Vec scale(Vec a, Vec n) { return _mm512_scalef_ps(a, n); }

  static Vec load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
  }
  static Vec load_bf16(const uint16_t *p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }
  /// 2 * width consecutive elements, split into the even and the odd ones.
  static void load_bf16_pair(const uint16_t *p, Vec &even, Vec &odd) {
    const __m512i both = _mm512_loadu_si512(p);
    even = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
    odd = _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
  }
  static __m128i load_bytes(const void *p) { return _mm_loadu_si128(static_cast<const __m128i *>(p)); }
  static Vec load_i8(const int8_t *p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_bytes(p))); }
  /// As halves, whose exponents are 8 more; NaN is the only code of all ones.
  static Vec load_e4m3(const uint8_t *p) {
    const __m512i bytes = _mm512_cvtepu8_epi32(load_bytes(p)), ones = _mm512_set1_epi32(0x3f80);
    const __m512i magnitude = _mm512_and_si512(_mm512_slli_epi32(bytes, 7), ones);
    const __m512i sign = _mm512_and_si512(_mm512_slli_epi32(bytes, 8), _mm512_set1_epi32(0x8000));
    const __m512i nan = _mm512_set1_epi32(0x7fff);
    const __m512i half = _mm512_mask_blend_epi32(_mm512_cmple_epi32_mask(ones, magnitude), magnitude, nan);
    return _mm512_mul_ps(of_halves(_mm512_or_si512(half, sign)), _mm512_set1_ps(0x1p8f));
  }
  static Vec load_e5m2(const uint8_t *p) {
    return of_halves(_mm512_slli_epi32(_mm512_cvtepu8_epi32(load_bytes(p)), 8));
  }
  /// The f16 numbers in the lower halves of lanes.
  static Vec of_halves(__m512i lanes) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(lanes)); }
  /// 2 * width half bytes taken apart: the low ones, the high ones. A permutation looks at four bits of an index.
  static void load_i4_pair(const uint8_t *p, Vec &low, Vec &high) {
    static constexpr float numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
    load_halves(p, load(numbers), low, high);
  }
  static void load_u4_pair(const uint8_t *p, Vec &low, Vec &high) {
    static constexpr float numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    load_halves(p, load(numbers), low, high);
  }
  static void load_halves(const uint8_t *p, Vec numbers, Vec &low, Vec &high) {
    const __m512i bytes = _mm512_cvtepu8_epi32(load_bytes(p));
    low = _mm512_permutexvar_ps(bytes, numbers);
    high = _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), numbers);
  }
  /// The binary16 at p in all lanes.
  static Vec set1_f16(const void *p) {
    uint16_t bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return of_halves(_mm512_set1_epi32(bits));
  }
  static Vec finite_or_nan(Vec a) { return add(a, sub(a, a)); }
  static Vec load_bool(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
  }
  static void store_f16(uint16_t *p, Vec a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
  }
  static void store_bf16(uint16_t *p, Vec a) {
    const __m512i bits = _mm512_castps_si512(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __m512i upper = _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), rounded, quiet);
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(upper, 16)));
  }
  /// The low byte of each lane.
  static void store_bytes(uint8_t *p, Vec a) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm512_cvtepi32_epi8(_mm512_castps_si512(a)));
  }

  /// The nearest integers, to even, as the bits of lanes: of numbers below 2^22.
  static Vec nearest(Vec a) { return _mm512_castsi512_ps(_mm512_cvtps_epi32(a)); }
  /// The integers of four vectors as bytes, in order and saturated: 4 * width in a vector.
  static Vec pack_bytes(Vec a, Vec b, Vec c, Vec d) {
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i ab = _mm512_packs_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b));
    const __m512i cd = _mm512_packs_epi32(_mm512_castps_si512(c), _mm512_castps_si512(d));
    return _mm512_castsi512_ps(_mm512_permutexvar_epi32(order, _mm512_packs_epi16(ab, cd)));
  }
  /// The low byte of each of 2 * width words.
  static void store_bytes_of_words(uint8_t *p, Vec a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), _mm512_cvtepi16_epi8(_mm512_castps_si512(a)));
  }

  /// Rows become columns: first within 128-bit blocks, then the blocks.
  static void transpose(Vec a[16]) {
    Vec t[16];
    for (int i = 0; i < 8; i++) {
      t[2 * i] = _mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]);
      t[2 * i + 1] = _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]);
    }
    for (int i = 0; i < 4; i++) {
      a[4 * i] = _mm512_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
      a[4 * i + 1] = _mm512_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
      a[4 * i + 2] = _mm512_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
      a[4 * i + 3] = _mm512_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
    // a[4 i + c], block b: rows 4 i .. 4 i + 3 of column 4 b + c.
    for (int c = 0; c < 4; c++) {
      const Vec low01 = _mm512_shuffle_f32x4(a[c], a[4 + c], 0x44), high01 = _mm512_shuffle_f32x4(a[c], a[4 + c], 0xee);
      const Vec low23 = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0x44);
      const Vec high23 = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0xee);
      t[c] = _mm512_shuffle_f32x4(low01, low23, 0x88);
      t[4 + c] = _mm512_shuffle_f32x4(low01, low23, 0xdd);
      t[8 + c] = _mm512_shuffle_f32x4(high01, high23, 0x88);
      t[12 + c] = _mm512_shuffle_f32x4(high01, high23, 0xdd);
    }
    for (int i = 0; i < 16; i++) a[i] = t[i];
  }

  static Vec sums(const Vec a[16]) {
    Vec b[8], c[4];
    for (int i = 0; i < 8; i++)
      b[i] = _mm512_add_ps(_mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]), _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]));
    for (int i = 0; i < 4; i++)
      c[i] = _mm512_add_ps(_mm512_shuffle_ps(b[2 * i], b[2 * i + 1], 0x44),
                           _mm512_shuffle_ps(b[2 * i], b[2 * i + 1], 0xee));
    // c[i], every block: part of the sums of a[4 i .. 4 i + 3].
    const Vec d0 = _mm512_add_ps(_mm512_shuffle_f32x4(c[0], c[1], 0x88), _mm512_shuffle_f32x4(c[0], c[1], 0xdd));
    const Vec d1 = _mm512_add_ps(_mm512_shuffle_f32x4(c[2], c[3], 0x88), _mm512_shuffle_f32x4(c[2], c[3], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(d0, d1, 0x88), _mm512_shuffle_f32x4(d0, d1, 0xdd));
  }

  /// Keeps a in a register.
#if defined(FA_MODEL_AVX512)
  static void pin(Vec &) {}  // the model's vectors fit none
#else
  static void pin(Vec &a) { asm("" : "+v"(a)); }
#endif
};

}  // namespace
}  // namespace fa::cpu::FA_ISA
