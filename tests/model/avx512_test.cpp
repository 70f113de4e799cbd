// The model of the AVX-512 intrinsics against AVX-512 itself, where the machine has that.
#include <cstdio>

#include "cpu/features.h"
#include "model/hardware512.h"
#include "model/lanes.h"

namespace test {
namespace {

/// Against the machine's own AVX-512, all bits but those of NaN.
class Model512 : public testing::Test {
 protected:
  void SetUp() override {
    if (const char *missing = fa::cpu::lacks_avx512()) GTEST_SKIP() << missing;
  }

  Random random_{3};
};

TEST_F(Model512, FloatsAsTheMachine) {
  for (int round = 0; round < rounds && !HasFailure(); round++) {
    const Floats a = mixed_floats(&random_), b = mixed_floats(&random_);
    const auto k = uint16_t(random_.next());
    Floats r;
#define X(imm)                                                                 \
  {                                                                            \
    SCOPED_TRACE("shuffle_f32x4 " #imm);                                       \
    hardware512::shuffle_f32x4_##imm(a.lane, b.lane, r.lane);                  \
    expect_same(stored(_mm512_shuffle_f32x4(a.vector(), b.vector(), imm)), r); \
  }
    HARDWARE_BLOCKS(X)
#undef X
    hardware512::roundscale_ps(a.lane, r.lane);
    expect_same(stored(_mm512_roundscale_ps(a.vector(), nearest)), r);
    hardware512::reduce_ps(a.lane, r.lane);
    expect_same(stored(_mm512_reduce_ps(a.vector(), nearest)), r);
    hardware512::scalef_ps(a.lane, b.lane, r.lane);
    expect_same(stored(_mm512_scalef_ps(a.vector(), b.vector())), r);
    hardware512::mask_blend_ps(k, a.lane, b.lane, r.lane);
    expect_same(stored(_mm512_mask_blend_ps(k, a.vector(), b.vector())), r);
  }
}

TEST_F(Model512, WordsAsTheMachine) {
  for (int round = 0; round < rounds && !HasFailure(); round++) {
    const Words a = mixed_words(&random_), b = mixed_words(&random_);
    Words r;
    hardware512::permutexvar_epi16(a.lane, b.lane, r.lane);
    expect_same(stored(_mm512_permutexvar_epi16(a.vector(), b.vector())), r);
    const Words c = mixed_words(&random_);
    hardware512::permutex2var_epi16(a.lane, b.lane, c.lane, r.lane);
    expect_same(stored(_mm512_permutex2var_epi16(a.vector(), b.vector(), c.vector())), r);
    uint16_t expected[16], got[16];
    hardware512::cvtepi32_epi16(a.lane, expected);
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(got), _mm512_cvtepi32_epi16(a.vector()));
    for (int i = 0; i < 16; i++) EXPECT_EQ(got[i], expected[i]) << "lane " << i;
    uint8_t expected_bytes[16], got_bytes[16];
    hardware512::cvtepi32_epi8(a.lane, expected_bytes);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(got_bytes), _mm512_cvtepi32_epi8(a.vector()));
    for (int i = 0; i < 16; i++) EXPECT_EQ(got_bytes[i], expected_bytes[i]) << "lane " << i;
    uint8_t expected_of_words[32], got_of_words[32];
    hardware512::cvtepi16_epi8(a.lane, expected_of_words);
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(got_of_words), _mm512_cvtepi16_epi8(a.vector()));
    for (int i = 0; i < 32; i++) EXPECT_EQ(got_of_words[i], expected_of_words[i]) << "lane " << i;
    hardware512::permutexvar_epi32(a.lane, b.lane, r.lane);
    expect_same(stored(_mm512_permutexvar_epi32(a.vector(), b.vector())), r);
    const Floats f = mixed_floats(&random_);
    Floats chosen;
    hardware512::permutexvar_ps(a.lane, f.lane, chosen.lane);
    expect_same(stored(_mm512_permutexvar_ps(a.vector(), f.vector())), chosen);
  }
}

/// Words and bytes around the bounds at which they saturate.
TEST_F(Model512, PackedAsTheMachine) {
  for (int round = 0; round < rounds && !HasFailure(); round++) {
    Words a = mixed_words(&random_), b = mixed_words(&random_), r;
    for (Words *w : {&a, &b})
      for (uint32_t &lane : w->lane)
        if (random_.chance(60)) lane = uint32_t(random_.between(-40000, 40000));
    hardware512::packs_epi32(a.lane, b.lane, r.lane);
    expect_same(stored(_mm512_packs_epi32(a.vector(), b.vector())), r);
    for (Words *w : {&a, &b})
      for (uint32_t &lane : w->lane)
        lane = uint32_t(random_.between(-200, 200)) << 16 | (uint32_t(random_.between(-200, 200)) & 0xffff);
    hardware512::packs_epi16(a.lane, b.lane, r.lane);
    expect_same(stored(_mm512_packs_epi16(a.vector(), b.vector())), r);
  }
}

TEST_F(Model512, NearestIntegersAsTheMachine) {
  for (int round = 0; round < rounds && !HasFailure(); round++) {
    const Floats a = mixed_floats(&random_);
    Words r;
    hardware512::cvtps_epi32(a.lane, r.lane);
    expect_same(stored(_mm512_cvtps_epi32(a.vector())), r);
  }
}

class ModelBf16 : public Model512 {
 protected:
  void SetUp() override {
    if (const char *missing = fa::cpu::lacks_avx512_bf16()) GTEST_SKIP() << missing;
  }

  void check(const Floats &c, const Words &a, const Words &b) {
    Floats r;
    hardware512::dpbf16_ps(c.lane, a.lane, b.lane, r.lane);
    expect_same(stored(_mm512_dpbf16_ps(c.vector(), __m512bh(a.vector()), __m512bh(b.vector()))), r);
    for (int i = 0; i < 16 && HasFailure(); i++)
      printf("lane %d: %a, pairs %08x and %08x\n", i, double(c.lane[i]), a.lane[i], b.lane[i]);
  }

  /// A bf16 whose product with another one is near the largest, near the smallest or close to 1, or any at all.
  uint32_t bf16() {
    static const uint32_t exponents[] = {0, 1, 2, 63, 64, 65, 126, 127, 128, 190, 191, 253, 254, 255};
    const uint32_t any = uint32_t(random_.next()) & 0xffff;
    const uint32_t exponent = exponents[random_.between(0, std::size(exponents) - 1)];
    const uint32_t fraction = random_.chance(30) ? 0 : any & 0x7f;
    return random_.chance(20) ? any : (any & 0x8000) | exponent << 7 | fraction;
  }
  Words pairs() {
    Words w;
    for (uint32_t &lane : w.lane) lane = bf16() << 16 | bf16();
    return w;
  }
};

TEST_F(ModelBf16, FloatsToBf16) {
  for (int round = 0; round < rounds && !HasFailure(); round++) {
    const Floats a = mixed_floats(&random_), b = std::bit_cast<Floats>(mixed_words(&random_));
    Words r;
    hardware512::cvtne2ps_pbh(a.lane, b.lane, r.lane);
    expect_same(stored(__m512i(_mm512_cvtne2ps_pbh(a.vector(), b.vector()))), r);
  }
}

TEST_F(ModelBf16, ProductsOfPairs) {
  for (int round = 0; round < 10 * rounds && !HasFailure(); round++) {
    Floats c = mixed_floats(&random_);
    for (float &lane : c.lane)
      if (random_.chance(40)) lane = std::bit_cast<float>(bf16() << 16 | (uint32_t(random_.next()) & 0xffff));
    check(c, pairs(), pairs());
  }
}

/// 2^-126 - x 2^-150: a sum is flushed where its rounding would be below 2^-126 if exponents had no bounds, which is
/// not where its rounding to the subnormal numbers is.
TEST_F(ModelBf16, SumsAtTheSmallestNormalNumber) {
  const uint32_t factor = 0x8000 | (127 - 75) << 7;
  for (uint32_t x = 0x3e80; x < 0x4200 && !HasFailure(); x++) {
    Floats c;
    Words a, b;
    for (uint32_t i = 0; i < 16; i++) {
      c.lane[i] = std::bit_cast<float>(0x00800000 + i / 4);
      const uint32_t product_of_upper = i % 2 == 0 ? 16 : 0, sign = i % 4 < 2 ? 0x8000 : 0;
      a.lane[i] = (factor ^ sign) << product_of_upper;
      b.lane[i] = (x - (75 << 7)) << product_of_upper;
    }
    check(c, a, b);
  }
}

}  // namespace
}  // namespace test
