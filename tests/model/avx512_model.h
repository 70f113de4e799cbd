// The AVX-512 intrinsics that the kernels use, as plain C++ that any machine runs: each follows Intel's manual of its
// instruction, under the default rounding. Vectors are the compilers' own, lowered to the machine's. It replaces
// <immintrin.h> (FA_MODEL_AVX512); a name that is missing here is an error of the compiler, never a wrong
// result.
#pragma once

#if defined(_IMMINTRIN_H_INCLUDED) || defined(__IMMINTRIN_H)
#error "the model takes the place of <immintrin.h>: include one of them"
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

// NOLINTBEGIN(bugprone-reserved-identifier, misc-definitions-in-headers): the names are Intel's; every kernel has its
// own.
namespace {

using __m512 = float __attribute__((vector_size(64)));
using __m512i = uint32_t __attribute__((vector_size(64)));
using __m512bh = __m512i;  // 32 bf16: casts between the two are free, as the compilers' are
struct __m256i {
  unsigned char byte[32];  // of alignment 1, since pointers to any address are cast to it
};
struct __m128i {
  unsigned char byte[16];
};
using __mmask16 = uint16_t;

constexpr int _MM_FROUND_TO_NEAREST_INT = 0, _MM_FROUND_NO_EXC = 8;
constexpr int _CMP_EQ_OQ = 0, _CMP_UNORD_Q = 3;

/// One copy is enough of a function of many instructions: kernels unroll their loops over one.
#define MODEL_CALL [[gnu::noinline]] inline

/// The helpers of the model; the intrinsics follow.
namespace model {

/// Lane i of the result is f(i).
template <class F>
inline __m512 floats(F f) {
  __m512 r = {};
  for (int i = 0; i < 16; i++) r[i] = f(i);
  return r;
}
template <class F>
inline __m512i words(F f) {
  __m512i r = {};
  for (int i = 0; i < 16; i++) r[i] = static_cast<uint32_t>(f(i));
  return r;
}

/// Bit i of the result is f(i).
template <class F>
inline __mmask16 mask(F f) {
  unsigned r = 0;
  for (int i = 0; i < 16; i++) r |= (f(i) ? 1u : 0u) << i;
  return static_cast<__mmask16>(r);
}

/// A vector's lanes of another size; std::bit_cast is the way back.
template <class T, class V>
inline std::array<T, sizeof(V) / sizeof(T)> lanes(const V &v) {
  return std::bit_cast<std::array<T, sizeof(V) / sizeof(T)>>(v);
}

inline uint32_t bits(float x) {
  return std::bit_cast<uint32_t>(x);
}
inline float from_bits(uint32_t x) {
  return std::bit_cast<float>(x);
}
inline int32_t signed_lane(const __m512i &v, int i) {
  return static_cast<int32_t>(v[i]);
}

constexpr uint32_t float_infinity = 0x7f800000, float_quiet = 0x400000;

inline float from_half(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16, magnitude = h & 0x7fffu;
  const uint32_t subnormal = bits(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t normal = (magnitude << 13) + (112u << 23);
  const uint32_t special = float_infinity | magnitude << 13 | (magnitude > 0x7c00 ? float_quiet : 0);
  return from_bits(sign | (magnitude < 0x400 ? subnormal : magnitude < 0x7c00 ? normal : special));
}

inline uint16_t to_half(float x) {
  const uint32_t sign = bits(x) >> 16 & 0x8000, magnitude = bits(x) & 0x7fffffff;
  uint32_t h;
  if (magnitude > float_infinity) {
    h = 0x7e00 | (magnitude >> 13 & 0x3ff);
  } else if (magnitude >= bits(65520.0f)) {
    h = 0x7c00;
  } else if (magnitude < bits(0x1p-14f)) {
    h = static_cast<uint32_t>(std::nearbyint(from_bits(magnitude) * 0x1p24f));  // may round up to the smallest normal
  } else {
    h = (magnitude + 0xfff + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
  }
  return static_cast<uint16_t>(sign | h);
}

/// Subnormal numbers to zero, as the bf16 instructions read and write.
inline float flush(float x) {
  return (bits(x) & float_infinity) == 0 ? from_bits(bits(x) & 0x80000000) : x;
}
inline float from_bf16(uint32_t low_half) {
  return flush(from_bits(low_half << 16));
}

inline uint16_t to_bf16(float x) {
  const uint32_t b = bits(flush(x));
  if ((b & 0x7fffffff) > float_infinity) return static_cast<uint16_t>((b | float_quiet) >> 16);
  return static_cast<uint16_t>((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

/// a * b + c rounded once, to zero where that would be below 2^-126 if exponents had no bounds. Double decides this
/// exactly: the product has 16 bits, and where the sum is small, c is not too large for them.
inline float flushed_fma(float a, float b, float c) {
  const double sum = static_cast<double>(a) * b + c;
  return std::abs(sum) < 0x1p-126 - 0x1p-151 ? std::copysign(0.0f, static_cast<float>(sum)) : std::fma(a, b, c);
}

/// a * 2^floor(b), rounded once: 2^+-300 is out of every float's range, and in double's.
inline float scale(float a, float b) {
  const bool quiet = std::isnan(a) && (bits(a) & float_quiet) != 0;
  if (std::isinf(b) && quiet) return b > 0 ? b : 0.0f;
  if (std::isnan(a) || std::isnan(b)) return a + b;
  if (std::isinf(b)) return b > 0 ? a * b : a / -b;  // 0 * inf and inf / inf are NaN
  const float n = std::floor(b);
  const int64_t exponent = n > 300 ? 300 : n < -300 ? -300 : static_cast<int64_t>(n);
  return static_cast<float>(a * std::bit_cast<double>(static_cast<uint64_t>(1023 + exponent) << 52));
}

/// x to the nearest multiple of 2^-m; imm is 16 m + 8 or 16 m.
inline float round_scaled(float x, int imm) {
  if ((imm & 7) != _MM_FROUND_TO_NEAREST_INT) __builtin_trap();  // the other directions are not modelled
  const float m = static_cast<float>(1 << (imm >> 4));
  return std::isinf(x) ? x : std::nearbyint(x * m) / m;
}

template <class T>
inline T load(const void *p) {
  T r;
  std::memcpy(&r, p, sizeof r);
  return r;
}

/// Lanes `first` and `first` + 1 of every block of four, alternately of a and b.
inline __m512 unpack(__m512 a, __m512 b, int first) {
  return floats([&](int i) {
    const int from = i / 4 * 4 + first + i % 4 / 2;
    return i % 2 == 0 ? a[from] : b[from];
  });
}

/// Of each block of 128 bits: the numbers of a, then those of b, saturated.
template <class To, class From, size_t n>
inline std::array<To, 2 * n> packed(const std::array<From, n> &a, const std::array<From, n> &b) {
  std::array<To, 2 * n> r;
  constexpr size_t block = 16 / sizeof(From);
  for (size_t i = 0; i < 2 * n; i++) {
    const size_t from = i / (2 * block) * block + i % block;
    r[i] = static_cast<To>(std::clamp<From>(i % (2 * block) < block ? a[from] : b[from], std::numeric_limits<To>::min(),
                                            std::numeric_limits<To>::max()));
  }
  return r;
}

/// The two bits of imm that belong to position i.
inline int selector(int imm, int i) {
  return imm >> 2 * i & 3;
}

}  // namespace model

// Loads, stores, constants, casts.

inline __m512 _mm512_loadu_ps(const void *p) {
  return model::load<__m512>(p);
}
inline __m512i _mm512_loadu_si512(const void *p) {
  return model::load<__m512i>(p);
}
inline __m256i _mm256_loadu_si256(const __m256i *p) {
  return model::load<__m256i>(p);
}
inline __m128i _mm_loadu_si128(const __m128i *p) {
  return model::load<__m128i>(p);
}
inline void _mm512_storeu_ps(void *p, __m512 a) {
  std::memcpy(p, &a, sizeof a);
}
inline void _mm_storeu_si128(__m128i *p, __m128i a) {
  std::memcpy(p, &a, sizeof a);
}
inline void _mm256_storeu_si256(__m256i *p, __m256i a) {
  std::memcpy(p, &a, sizeof a);
}

inline __m512 _mm512_set1_ps(float a) {
  return model::floats([&](int) { return a; });
}
inline __m512i _mm512_set1_epi32(int a) {
  return model::words([&](int) { return a; });
}
inline __m512 _mm512_setzero_ps() {
  return _mm512_set1_ps(0);
}

/// The highest lane first.
inline __m512i _mm512_set_epi32(int e15, int e14, int e13, int e12, int e11, int e10, int e9, int e8, int e7, int e6,
                                int e5, int e4, int e3, int e2, int e1, int e0) {
  const int from_lowest[16] = {e0, e1, e2, e3, e4, e5, e6, e7, e8, e9, e10, e11, e12, e13, e14, e15};
  return model::words([&](int i) { return from_lowest[i]; });
}

inline __m512 _mm512_castsi512_ps(__m512i a) {
  return std::bit_cast<__m512>(a);
}
inline __m512i _mm512_castps_si512(__m512 a) {
  return std::bit_cast<__m512i>(a);
}

// Arithmetic of floats.

inline __m512 _mm512_add_ps(__m512 a, __m512 b) {
  return a + b;
}
inline __m512 _mm512_sub_ps(__m512 a, __m512 b) {
  return a - b;
}
inline __m512 _mm512_mul_ps(__m512 a, __m512 b) {
  return a * b;
}
inline __m512 _mm512_div_ps(__m512 a, __m512 b) {
  return a / b;
}
MODEL_CALL __m512 _mm512_fmadd_ps(__m512 a, __m512 b, __m512 c) {
  return model::floats([&](int i) { return std::fma(a[i], b[i], c[i]); });
}
/// b where either is NaN, and where both are zeros.
inline __m512 _mm512_max_ps(__m512 a, __m512 b) {
  return a > b ? a : b;
}
inline __m512 _mm512_min_ps(__m512 a, __m512 b) {
  return a < b ? a : b;
}
MODEL_CALL __m512 _mm512_roundscale_ps(__m512 a, int imm) {
  return model::floats([&](int i) { return model::round_scaled(a[i], imm); });
}
/// The part that roundscale takes off; 0 of an infinity.
MODEL_CALL __m512 _mm512_reduce_ps(__m512 a, int imm) {
  return model::floats([&](int i) { return std::isinf(a[i]) ? 0.0f : a[i] - model::round_scaled(a[i], imm); });
}
MODEL_CALL __m512 _mm512_scalef_ps(__m512 a, __m512 b) {
  return model::floats([&](int i) { return model::scale(a[i], b[i]); });
}

// Integers of 32 bits; they wrap.

inline __m512i _mm512_add_epi32(__m512i a, __m512i b) {
  return a + b;
}
inline __m512i _mm512_sub_epi32(__m512i a, __m512i b) {
  return a - b;
}
inline __m512i _mm512_abs_epi32(__m512i a) {
  return model::words([&](int i) { return a[i] >> 31 ? 0u - a[i] : a[i]; });
}
inline __m512i _mm512_and_si512(__m512i a, __m512i b) {
  return a & b;
}
inline __m512i _mm512_or_si512(__m512i a, __m512i b) {
  return a | b;
}
inline __m512i _mm512_slli_epi32(__m512i a, unsigned count) {
  return model::words([&](int i) { return count < 32 ? a[i] << count : 0u; });
}
inline __m512i _mm512_srai_epi32(__m512i a, unsigned count) {
  return model::words(
      [&](int i) { return static_cast<uint32_t>(model::signed_lane(a, i) >> (count < 31 ? count : 31)); });
}
inline __m512i _mm512_srli_epi32(__m512i a, unsigned count) {
  return model::words([&](int i) { return count < 32 ? a[i] >> count : 0u; });
}

// Comparisons, and selection by them: b where the mask's bit is set.

inline __mmask16 _mm512_cmp_ps_mask(__m512 a, __m512 b, int predicate) {
  if (predicate == _CMP_EQ_OQ) return model::mask([&](int i) { return a[i] == b[i]; });
  return model::mask([&](int i) { return std::isunordered(a[i], b[i]); });
}
inline __mmask16 _mm512_cmple_epi32_mask(__m512i a, __m512i b) {
  return model::mask([&](int i) { return model::signed_lane(a, i) <= model::signed_lane(b, i); });
}
inline __mmask16 _mm512_cmplt_epi32_mask(__m512i a, __m512i b) {
  return model::mask([&](int i) { return model::signed_lane(a, i) < model::signed_lane(b, i); });
}
inline __m512 _mm512_mask_blend_ps(__mmask16 k, __m512 a, __m512 b) {
  return model::floats([&](int i) { return k >> i & 1 ? b[i] : a[i]; });
}
inline __m512i _mm512_mask_blend_epi32(__mmask16 k, __m512i a, __m512i b) {
  return model::words([&](int i) { return k >> i & 1 ? b[i] : a[i]; });
}

// Conversions.

inline __m512 _mm512_cvtepi32_ps(__m512i a) {
  return model::floats([&](int i) { return static_cast<float>(model::signed_lane(a, i)); });
}
inline __m512i _mm512_cvtepi8_epi32(__m128i a) {
  return model::words([&](int i) { return static_cast<uint32_t>(static_cast<int8_t>(a.byte[i])); });
}
inline __m512i _mm512_cvtepu8_epi32(__m128i a) {
  return model::words([&](int i) { return a.byte[i]; });
}
inline __m512i _mm512_cvtepu16_epi32(__m256i a) {
  const auto from = model::lanes<uint16_t>(a);
  return model::words([&](int i) { return from[i]; });
}
/// The low halves: it does not saturate.
inline __m256i _mm512_cvtepi32_epi16(__m512i a) {
  std::array<uint16_t, 16> r;
  for (int i = 0; i < 16; i++) r[i] = static_cast<uint16_t>(a[i]);
  return std::bit_cast<__m256i>(r);
}
/// The low bytes: it does not saturate.
inline __m128i _mm512_cvtepi32_epi8(__m512i a) {
  std::array<uint8_t, 16> r;
  for (int i = 0; i < 16; i++) r[i] = static_cast<uint8_t>(a[i]);
  return std::bit_cast<__m128i>(r);
}
MODEL_CALL __m512 _mm512_cvtph_ps(__m256i a) {
  const auto from = model::lanes<uint16_t>(a);
  return model::floats([&](int i) { return model::from_half(from[i]); });
}
MODEL_CALL __m256i _mm512_cvtps_ph(__m512 a, int rounding) {
  if ((rounding & 7) != _MM_FROUND_TO_NEAREST_INT) __builtin_trap();  // the other directions are not modelled
  std::array<uint16_t, 16> r;
  for (int i = 0; i < 16; i++) r[i] = model::to_half(a[i]);
  return std::bit_cast<__m256i>(r);
}
/// The nearest integers, to even; the smallest one of numbers out of range, and of NaN.
MODEL_CALL __m512i _mm512_cvtps_epi32(__m512 a) {
  return model::words([&](int i) {
    const float x = std::nearbyint(a[i]);
    return x >= -0x1p31f && x < 0x1p31f ? static_cast<int32_t>(x) : INT32_MIN;
  });
}
/// The low bytes: it does not saturate.
inline __m256i _mm512_cvtepi16_epi8(__m512i a) {
  const auto from = model::lanes<uint16_t>(a);
  std::array<uint8_t, 32> r;
  for (int i = 0; i < 32; i++) r[i] = static_cast<uint8_t>(from[i]);
  return std::bit_cast<__m256i>(r);
}
/// 32 bf16: those of b below those of a.
MODEL_CALL __m512bh _mm512_cvtne2ps_pbh(__m512 a, __m512 b) {
  std::array<uint16_t, 32> r;
  for (int i = 0; i < 16; i++) {
    r[i] = model::to_bf16(b[i]);
    r[16 + i] = model::to_bf16(a[i]);
  }
  return std::bit_cast<__m512bh>(r);
}

// Products of pairs of bf16 added to c, the upper pair first, each rounded once.

MODEL_CALL __m512 _mm512_dpbf16_ps(__m512 c, __m512bh a, __m512bh b) {
  using model::from_bf16, model::flushed_fma;
  return model::floats([&](int i) {
    const float upper = flushed_fma(from_bf16(a[i] >> 16), from_bf16(b[i] >> 16), model::flush(c[i]));
    return flushed_fma(from_bf16(a[i] & 0xffff), from_bf16(b[i] & 0xffff), upper);
  });
}

// Shuffles: within blocks of 128 bits, then of whole blocks and over all lanes.

inline __m512 _mm512_unpacklo_ps(__m512 a, __m512 b) {
  return model::unpack(a, b, 0);
}
inline __m512 _mm512_unpackhi_ps(__m512 a, __m512 b) {
  return model::unpack(a, b, 2);
}

/// Of each block: two lanes of a, two of b.
inline __m512 _mm512_shuffle_ps(__m512 a, __m512 b, int imm) {
  return model::floats([&](int i) {
    const int from = i / 4 * 4 + model::selector(imm, i % 4);
    return i % 4 < 2 ? a[from] : b[from];
  });
}
/// Two blocks of a, two of b.
inline __m512 _mm512_shuffle_f32x4(__m512 a, __m512 b, int imm) {
  return model::floats([&](int i) {
    const int from = 4 * model::selector(imm, i / 4) + i % 4;
    return i < 8 ? a[from] : b[from];
  });
}
/// Of each block of 128 bits: the numbers of a, then those of b, saturated to half their size.
inline __m512i _mm512_packs_epi32(__m512i a, __m512i b) {
  return std::bit_cast<__m512i>(model::packed<int16_t>(model::lanes<int32_t>(a), model::lanes<int32_t>(b)));
}
inline __m512i _mm512_packs_epi16(__m512i a, __m512i b) {
  return std::bit_cast<__m512i>(model::packed<int8_t>(model::lanes<int16_t>(a), model::lanes<int16_t>(b)));
}
inline __m512i _mm512_permutexvar_epi32(__m512i index, __m512i a) {
  return model::words([&](int i) { return a[static_cast<int>(index[i] & 15)]; });
}
inline __m512 _mm512_permutexvar_ps(__m512i index, __m512 a) {
  return model::floats([&](int i) { return a[static_cast<int>(index[i] & 15)]; });
}
inline __m512i _mm512_permutexvar_epi16(__m512i index, __m512i a) {
  const auto at = model::lanes<uint16_t>(index), from = model::lanes<uint16_t>(a);
  std::array<uint16_t, 32> r;
  for (int i = 0; i < 32; i++) r[i] = from[at[i] & 31];
  return std::bit_cast<__m512i>(r);
}
/// Of 64 numbers: those of a, then those of b.
inline __m512i _mm512_permutex2var_epi16(__m512i a, __m512i index, __m512i b) {
  const auto low = model::lanes<uint16_t>(a), at = model::lanes<uint16_t>(index), high = model::lanes<uint16_t>(b);
  std::array<uint16_t, 32> r;
  for (int i = 0; i < 32; i++) r[i] = ((at[i] & 32) != 0 ? high : low)[at[i] & 31];
  return std::bit_cast<__m512i>(r);
}

}  // namespace
// NOLINTEND(bugprone-reserved-identifier, misc-definitions-in-headers)

#undef MODEL_CALL
