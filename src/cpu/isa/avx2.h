// AVX2 with FMA and F16C: 8 lanes, 16 registers.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace fa::cpu::FA_ISA {
namespace {

struct Simd {
  using Vec = __m256;
  using Mask = __m256;
  static constexpr int width = 8;
  static constexpr int tile_vectors = 3;  // 4 keys x 3 vectors of queries: 12 accumulators, 3 operands, 1 broadcast
  static constexpr int subtiles = 4, max_subtiles = 4;
  static constexpr int pack = 1;  // operands of the products are f32
  static constexpr int parts = 1;
  static constexpr int decode_rows = 8;
  static constexpr int group_rows = 4;  // that share a load in decode
  static constexpr bool fused = true;   // fma rounds once

  /// Keeps a in a register.
  static void pin(Vec &a) { asm("" : "+x"(a)); }
  static Vec load(const float *p) { return _mm256_loadu_ps(p); }
  static void store(float *p, Vec a) { _mm256_storeu_ps(p, a); }
  static Vec zero() { return _mm256_setzero_ps(); }
  static Vec set1(float a) { return _mm256_set1_ps(a); }
  static Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
  static Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
  static Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  static Vec multiply_add(Vec a, Vec b, Vec c) { return fma(a, b, c); }
  static Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }  // b when either is NaN
  static Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }  // b when either is NaN

  static Mask equal(Vec a, Vec b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
  static Vec select(Mask m, Vec yes, Vec no) { return _mm256_blendv_ps(no, yes, m); }

  /// Lanes in which low <= j < high.
  static Mask between(const int32_t *low, const int32_t *high, int32_t j) {
    const __m256i key = _mm256_set1_epi32(j);
    const __m256i below = _mm256_cmpgt_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(low)), key);
    const __m256i inside = _mm256_cmpgt_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(high)), key);
    return _mm256_castsi256_ps(_mm256_andnot_si256(below, inside));
  }

  /// |a[lane] - j| as float.
  static Vec distance(const int32_t *a, int32_t j) {
    const __m256i d = _mm256_sub_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(a)), _mm256_set1_epi32(j));
    return _mm256_cvtepi32_ps(_mm256_abs_epi32(d));
  }

  /// x = n + r, n integral, |r| <= 1/2; x is taken for -127 below that.
  static void split(Vec x, Vec &n, Vec &r) {
    x = _mm256_max_ps(_mm256_set1_ps(-127.0f), x);
    n = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    r = _mm256_sub_ps(x, n);
  }

  /// a * 2^n for integral -127 <= n <= 127 and a in (0.7, 1.5); exactly 0 for a = 1, n = -127. For n = 128 and a up to
  /// 1, infinity at 1.
  static Vec scale(Vec a, Vec n) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23)));
  }

  static Vec load_f16(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
  }
  static Vec load_bf16(const uint16_t *p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
  /// 2 * width consecutive elements, split into the even and the odd ones.
  static void load_bf16_pair(const uint16_t *p, Vec &even, Vec &odd) {
    const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
    even = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
    odd = _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32(static_cast<int>(0xffff0000))));
  }
  static __m128i load_bytes(const void *p) { return _mm_loadl_epi64(static_cast<const __m128i *>(p)); }
  static Vec load_i8(const int8_t *p) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_bytes(p))); }
  /// As halves, whose exponents are 8 more; NaN is the only code of all ones.
  static Vec load_e4m3(const uint8_t *p) {
    const __m128i words = _mm_unpacklo_epi8(_mm_setzero_si128(), load_bytes(p));
    const __m128i half = _mm_and_si128(_mm_srai_epi16(words, 1), _mm_set1_epi16(static_cast<int16_t>(0xbfff)));
    const __m128i nan = _mm_cmpeq_epi16(_mm_slli_epi16(words, 1), _mm_set1_epi16(static_cast<int16_t>(0xfe00)));
    return _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(half, nan)), _mm256_set1_ps(0x1p8f));
  }
  static Vec load_e5m2(const uint8_t *p) {
    return _mm256_cvtph_ps(_mm_unpacklo_epi8(_mm_setzero_si128(), load_bytes(p)));
  }
  /// 2 * width half bytes taken apart: the low ones, the high ones.
  static void load_i4_pair(const uint8_t *p, Vec &low, Vec &high) {
    const __m256i bytes = _mm256_cvtepi8_epi32(load_bytes(p));
    low = _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(bytes, 28), 28));
    high = _mm256_cvtepi32_ps(_mm256_srai_epi32(bytes, 4));
  }
  static void load_u4_pair(const uint8_t *p, Vec &low, Vec &high) {
    const __m256i bytes = _mm256_cvtepu8_epi32(load_bytes(p));
    low = _mm256_cvtepi32_ps(_mm256_and_si256(bytes, _mm256_set1_epi32(15)));
    high = _mm256_cvtepi32_ps(_mm256_srli_epi32(bytes, 4));
  }
  /// The binary16 at p in all lanes.
  static Vec set1_f16(const void *p) {
    uint16_t bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
  }
  static Vec finite_or_nan(Vec a) { return add(a, sub(a, a)); }
  static Vec load_bool(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p))));
  }
  static void store_f16(uint16_t *p, Vec a) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
  }
  static void store_bf16(uint16_t *p, Vec a) {
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const Mask nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
    const __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(nan)), 16);
    const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p), packed);
  }
  /// The low byte of each lane.
  static void store_bytes(uint8_t *p, Vec a) {
    const __m256i first = _mm256_set1_epi32(0x0c080400);
    const __m256i fours = _mm256_shuffle_epi8(_mm256_castps_si256(a), first);
    const __m128i both = _mm_unpacklo_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i *>(p), both);
  }

  /// The nearest integers, to even, as the bits of lanes: of numbers below 2^22.
  static Vec nearest(Vec a) { return _mm256_castsi256_ps(_mm256_cvtps_epi32(a)); }
  /// The integers of four vectors as bytes, in order and saturated: 4 * width in a vector.
  static Vec pack_bytes(Vec a, Vec b, Vec c, Vec d) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i ab = _mm256_packs_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b));
    const __m256i cd = _mm256_packs_epi32(_mm256_castps_si256(c), _mm256_castps_si256(d));
    return _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), order));
  }
  /// The low byte of each of 2 * width words.
  static void store_bytes_of_words(uint8_t *p, Vec a) {
    const __m256i low = _mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi16(0xff));
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p), bytes);
  }

  /// Rows become columns: a[i] lane j <-> a[j] lane i.
  static void transpose(Vec a[8]) {
    Vec t[8], u[8];
    for (int i = 0; i < 4; i++) {
      t[2 * i] = _mm256_unpacklo_ps(a[2 * i], a[2 * i + 1]);
      t[2 * i + 1] = _mm256_unpackhi_ps(a[2 * i], a[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
      u[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
      u[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
      u[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
      u[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
      a[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
      a[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
  }

  /// Elements d .. d + 7 of 8 rows, as columns: halves are put together by loads, which shuffles need not do then.
  static void load_columns(const float *const *row, int64_t d, Vec *to) {
    for (int half = 0; half < 8; half += 4) {
      Vec a[4], b[4];
      for (int i = 0; i < 4; i++)
        a[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(row[i] + d + half)),
                                    _mm_loadu_ps(row[i + 4] + d + half), 1);
      for (int i = 0; i < 4; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
      }
      for (int i = 0; i < 2; i++) {
        to[half + 2 * i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        to[half + 2 * i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
      }
    }
  }

  /// Lane i of the result is the sum of the lanes of a[i].
  static Vec sums(const Vec a[8]) {
    const Vec b0 = _mm256_hadd_ps(_mm256_hadd_ps(a[0], a[1]), _mm256_hadd_ps(a[2], a[3]));
    const Vec b1 = _mm256_hadd_ps(_mm256_hadd_ps(a[4], a[5]), _mm256_hadd_ps(a[6], a[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(b0, b1, 0x20), _mm256_permute2f128_ps(b0, b1, 0x31));
  }
};

}  // namespace
}  // namespace fa::cpu::FA_ISA
