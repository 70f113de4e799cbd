// The model of the AVX-512 intrinsics against the manual's words.
#include <utility>

#include "model/lanes.h"

namespace test {
namespace {

/// Against the manual.
TEST(ModelByTheManual, Scalef) {
  const auto scalef = [](float a, float b) {
    return stored(_mm512_scalef_ps(_mm512_set1_ps(a), _mm512_set1_ps(b))).lane[7];
  };
  Random random(2);
  for (int round = 0; round < rounds; round++) {
    const float a = std::bit_cast<float>(uint32_t(random.next())), b = float(random.between(-3000, 3000)) / 8;
    if (std::isnan(a)) continue;
    EXPECT_EQ(scalef(a, b), std::ldexp(a, int(std::floor(b)))) << a << " " << b;
  }
  EXPECT_EQ(scalef(1, 1e30f), infinity);
  EXPECT_EQ(scalef(-1, 1e30f), -infinity);
  EXPECT_EQ(scalef(1, -1e30f), 0.0f);
  EXPECT_EQ(scalef(1.5f, -149), 2.8e-45f);
  EXPECT_EQ(scalef(3, infinity), infinity);
  EXPECT_EQ(scalef(3, -infinity), 0.0f);
  EXPECT_EQ(scalef(infinity, -7), infinity);
  EXPECT_EQ(scalef(infinity, infinity), infinity);
  EXPECT_TRUE(std::isnan(scalef(infinity, -infinity)));
  EXPECT_EQ(std::bit_cast<uint32_t>(scalef(0, -infinity)), 0u);
  EXPECT_EQ(std::bit_cast<uint32_t>(scalef(-3, -infinity)), 0x80000000u);
  EXPECT_TRUE(std::isnan(scalef(0, infinity)));
  EXPECT_TRUE(std::isnan(scalef(1, quiet_nan)));
  EXPECT_TRUE(std::isnan(scalef(quiet_nan, 1)));
  EXPECT_TRUE(std::isnan(scalef(quiet_nan, quiet_nan)));
  EXPECT_EQ(scalef(quiet_nan, infinity), infinity);
  EXPECT_EQ(scalef(quiet_nan, -infinity), 0.0f);
}

TEST(ModelByTheManual, Reduce) {
  const auto reduce = [](float a) { return stored(_mm512_reduce_ps(_mm512_set1_ps(a), nearest)).lane[3]; };
  EXPECT_EQ(reduce(2.75f), -0.25f);
  EXPECT_EQ(reduce(2.5f), 0.5f);
  EXPECT_EQ(reduce(3.5f), -0.5f);
  EXPECT_EQ(reduce(-0.3f), -0.3f);
  EXPECT_EQ(reduce(1e20f), 0.0f);
  EXPECT_EQ(reduce(infinity), 0.0f);
  EXPECT_EQ(reduce(-infinity), 0.0f);
  EXPECT_TRUE(std::isnan(reduce(quiet_nan)));
}

Floats counted(float first) {
  Floats f;
  for (int i = 0; i < 16; i++) f.lane[i] = first + float(i);
  return f;
}

TEST(ModelByTheManual, Blends) {
  const Floats a = counted(0), b = counted(100);
  const Words x = std::bit_cast<Words>(a), y = std::bit_cast<Words>(b);
  const Floats f = stored(_mm512_mask_blend_ps(0x8005, a.vector(), b.vector()));
  const Words w = stored(_mm512_mask_blend_epi32(0x8005, x.vector(), y.vector()));
  for (int i = 0; i < 16; i++) {
    const bool set = i == 0 || i == 2 || i == 15;
    EXPECT_EQ(f.lane[i], (set ? b : a).lane[i]);
    EXPECT_EQ(w.lane[i], (set ? y : x).lane[i]);
  }
}

TEST(ModelByTheManual, BlocksOf128Bits) {
  const Floats r = stored(_mm512_shuffle_f32x4(counted(0).vector(), counted(100).vector(), 0b10'00'11'01));
  expect_same(r, {{4, 5, 6, 7, 12, 13, 14, 15, 100, 101, 102, 103, 108, 109, 110, 111}});
}

TEST(ModelByTheManual, NarrowIntegers) {
  const uint8_t bytes[16] = {0, 1, 127, 128, 255, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 200};
  const Words wide = stored(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(bytes))));
  for (int i = 0; i < 16; i++) EXPECT_EQ(wide.lane[i], bytes[i]);
  const __m512i of_signed = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(bytes)));
  const Words shifted = stored(_mm512_srai_epi32(of_signed, 4));
  for (int i = 0; i < 16; i++) {
    EXPECT_EQ(stored(of_signed).lane[i], uint32_t(int8_t(bytes[i])));
    EXPECT_EQ(shifted.lane[i], uint32_t(int8_t(bytes[i]) >> 4));
  }

  Words w;
  for (uint32_t i = 0; i < 16; i++) w.lane[i] = 0xabcd8000u + i * 0x1001;
  uint16_t halves[16];
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(halves), _mm512_cvtepi32_epi16(w.vector()));
  const Words back = stored(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(halves))));
  for (int i = 0; i < 16; i++) EXPECT_EQ(back.lane[i], w.lane[i] & 0xffff);
}

TEST(ModelByTheManual, OrderOfLanes) {
  const __m512i w = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  for (uint32_t i = 0; i < 16; i++) EXPECT_EQ(stored(w).lane[i], i);
  const Words ones = stored(_mm512_permutexvar_epi16(_mm512_set1_epi32(0x0007003f), w));
  for (const uint32_t lane : ones.lane) EXPECT_EQ(lane, 0x0000'0000u);  // halves 31 and 7 are zeros
  const Words two = stored(_mm512_permutexvar_epi16(_mm512_set1_epi32(0x001e'0024), w));
  for (const uint32_t lane : two.lane) EXPECT_EQ(lane, 15u << 16 | 2);  // halves 30 and 36 - 32 = 4
  const __m512i second = _mm512_set1_epi32(0x0003'0009);
  const Words both = stored(_mm512_permutex2var_epi16(w, _mm512_set1_epi32(0x0024'001e), second));
  for (const uint32_t lane : both.lane) EXPECT_EQ(lane, 9u << 16 | 15);  // half 30 of the first, half 4 of the second
}

TEST(ModelByTheManual, FloatsToBf16) {
  const auto both = [](float low, float high) {
    const Words w = stored(__m512i(_mm512_cvtne2ps_pbh(_mm512_set1_ps(high), _mm512_set1_ps(low))));
    EXPECT_EQ(w.lane[0], w.lane[7]);
    EXPECT_EQ(w.lane[8], w.lane[15]);
    EXPECT_EQ(w.lane[0] & 0xffff, w.lane[0] >> 16);
    return std::pair{w.lane[0] >> 16, w.lane[8] >> 16};
  };
  EXPECT_EQ(both(1, -2), (std::pair{0x3f80u, 0xc000u}));
  EXPECT_EQ(both(1 + 0x1p-8f, 1 + 0x3p-8f), (std::pair{0x3f80u, 0x3f82u}));  // ties to even
  EXPECT_EQ(both(1 + 0x1.001p-8f, 3.4e38f), (std::pair{0x3f81u, 0x7f80u}));
  EXPECT_EQ(both(infinity, -1e-40f), (std::pair{0x7f80u, 0x8000u}));  // subnormal: zero
  EXPECT_EQ(both(std::bit_cast<float>(0x7f800001u), quiet_nan), (std::pair{0x7fc0u, 0x7fc0u}));
}

TEST(ModelByTheManual, ProductsOfPairs) {
  // 2 * 3 + 4 * 5, added to a number that differs from lane to lane.
  const __m512i a = _mm512_set1_epi32(0x4080'4000), b = _mm512_set1_epi32(0x40a0'4040);
  Floats c = counted(1);
  const Floats r = stored(_mm512_dpbf16_ps(c.vector(), __m512bh(a), __m512bh(b)));
  for (int i = 0; i < 16; i++) EXPECT_EQ(r.lane[i], c.lane[i] + 26);
  // The upper product comes first: 2^24 + 1 - 2^24 is 0, where 2^24 - 2^24 + 1 would be 1.
  const __m512i big = _mm512_set1_epi32(0x3f80'4b80), one = _mm512_set1_epi32(0x3f80'bf80);
  EXPECT_EQ(stored(_mm512_dpbf16_ps(_mm512_set1_ps(0x1p24f), __m512bh(big), __m512bh(one))).lane[4], 0.0f);
  // Each product is added before it is rounded: it may be larger than any f32.
  const __m512i square = _mm512_set1_epi32(0x5f80'5f80), minus = _mm512_set1_epi32(0x5f80'df80);
  EXPECT_EQ(stored(_mm512_dpbf16_ps(_mm512_set1_ps(-0x1p127f), __m512bh(square), __m512bh(minus))).lane[9], -0x1p127f);
  // Subnormal operands count as zeros.
  const __m512i tiny = _mm512_set1_epi32(0x0001'0001), huge = _mm512_set1_epi32(0x7f00'7f00);
  EXPECT_EQ(stored(_mm512_dpbf16_ps(_mm512_setzero_ps(), __m512bh(tiny), __m512bh(huge))).lane[0], 0.0f);
}

}  // namespace
}  // namespace test
