// model.*: the model of the AVX-512 intrinsics against this machine's AVX2 where that does the same to half as many
// lanes, and against the manual's words elsewhere; against AVX-512 itself where the machine has that.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cpu/features.h"
#include "model/avx512_model.h"
#include "model/hardware.h"
#include "model/hardware512.h"
#include "reference/random.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const float quiet_nan = std::numeric_limits<float>::quiet_NaN();

constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

struct Floats {
  float lane[16];
  __m512 vector() const { return _mm512_loadu_ps(lane); }
};
struct Words {
  uint32_t lane[16];
  __m512i vector() const { return _mm512_loadu_si512(lane); }
};

Floats stored(__m512 a) {
  Floats r;
  _mm512_storeu_ps(r.lane, a);
  return r;
}
Words stored(__m512i a) {
  return std::bit_cast<Words>(stored(_mm512_castsi512_ps(a)));
}

/// The same bits, or both NaN.
void expect_same(const Floats &a, const Floats &b) {
  for (int i = 0; i < 16; i++) {
    if (std::isnan(a.lane[i]) && std::isnan(b.lane[i])) continue;
    EXPECT_EQ(std::bit_cast<uint32_t>(a.lane[i]), std::bit_cast<uint32_t>(b.lane[i]))
        << "lane " << i << ": " << a.lane[i] << " for " << b.lane[i];
  }
}
void expect_same(const Words &a, const Words &b) {
  for (int i = 0; i < 16; i++) EXPECT_EQ(a.lane[i], b.lane[i]) << "lane " << i;
}

/// Special values, small integers and halves, and any bits at all.
Floats mixed_floats(Random *r) {
  static const float special[] = {0.0f,    -0.0f,   1.0f,      -1.0f,    infinity, -infinity, quiet_nan,  0.5f,
                                  1.5f,    -2.5f,   1e-45f,    -1e-40f,  1.2e-38f, 3.4e38f,   -3.4e38f,   127.0f,
                                  -126.5f, -150.0f, 65519.99f, 65520.0f, 6e-8f,    2.9e-8f,   8388607.5f, 0.49999997f};
  Floats f;
  for (float &lane : f.lane) {
    const int64_t kind = r->between(0, 3);
    if (kind == 0) lane = special[r->between(0, std::size(special) - 1)];
    if (kind == 1) lane = float(r->between(-40, 40)) / 4;
    if (kind >= 2) lane = std::bit_cast<float>(uint32_t(r->next()));
  }
  return f;
}
Words mixed_words(Random *r) {
  Words w;
  for (uint32_t &lane : w.lane) lane = r->chance(70) ? uint32_t(r->next()) : uint32_t(0x7fffffff + r->between(-2, 3));
  return w;
}

const int rounds = slow ? 500 : 4000;

/// Against the machine's own instructions.
class Model : public testing::Test {
 protected:
  void SetUp() override {
    if (const char *missing = fa::cpu::lacks_avx2()) GTEST_SKIP() << missing;
  }

  Random random_{1};
};

TEST_F(Model, FloatsAsTheMachine) {
  for (int round = 0; round < rounds && !HasFailure(); round++) {
    const Floats a = mixed_floats(&random_), b = mixed_floats(&random_), c = mixed_floats(&random_);
    Floats r;
#define X(name)                                                    \
  {                                                                \
    SCOPED_TRACE(#name);                                           \
    hardware::name(a.lane, b.lane, r.lane);                        \
    hardware::name(a.lane + 8, b.lane + 8, r.lane + 8);            \
    expect_same(stored(_mm512_##name(a.vector(), b.vector())), r); \
  }
    HARDWARE_FLOATS(X)
#undef X
#define X(imm)                                                              \
  {                                                                         \
    SCOPED_TRACE("shuffle_ps " #imm);                                       \
    hardware::shuffle_##imm(a.lane, b.lane, r.lane);                        \
    hardware::shuffle_##imm(a.lane + 8, b.lane + 8, r.lane + 8);            \
    expect_same(stored(_mm512_shuffle_ps(a.vector(), b.vector(), imm)), r); \
  }
    HARDWARE_SHUFFLES(X)
#undef X
    for (int half = 0; half < 16; half += 8) hardware::fma(a.lane + half, b.lane + half, c.lane + half, r.lane + half);
    expect_same(stored(_mm512_fmadd_ps(a.vector(), b.vector(), c.vector())), r);
    for (int half = 0; half < 16; half += 8) hardware::round_to_integer(a.lane + half, r.lane + half);
    expect_same(stored(_mm512_roundscale_ps(a.vector(), nearest)), r);
    EXPECT_EQ(_mm512_cmp_ps_mask(a.vector(), b.vector(), _CMP_EQ_OQ),
              hardware::equal(a.lane, b.lane) | hardware::equal(a.lane + 8, b.lane + 8) << 8);
    EXPECT_EQ(_mm512_cmp_ps_mask(a.vector(), b.vector(), _CMP_UNORD_Q),
              hardware::unordered(a.lane, b.lane) | hardware::unordered(a.lane + 8, b.lane + 8) << 8);
  }
}

TEST_F(Model, IntegersAsTheMachine) {
  for (int round = 0; round < rounds && !HasFailure(); round++) {
    const Words a = mixed_words(&random_), b = mixed_words(&random_);
    Words r;
#define X(name)                                                    \
  {                                                                \
    SCOPED_TRACE(#name);                                           \
    hardware::name(a.lane, b.lane, r.lane);                        \
    hardware::name(a.lane + 8, b.lane + 8, r.lane + 8);            \
    expect_same(stored(_mm512_##name(a.vector(), b.vector())), r); \
  }
    HARDWARE_WORDS(X)
#undef X
#define X(name)                                                            \
  {                                                                        \
    SCOPED_TRACE(#name);                                                   \
    hardware::name##_si(a.lane, b.lane, r.lane);                           \
    hardware::name##_si(a.lane + 8, b.lane + 8, r.lane + 8);               \
    expect_same(stored(_mm512_##name##_si512(a.vector(), b.vector())), r); \
  }
    HARDWARE_BITS(X)
#undef X
#define X(name, count)                                        \
  {                                                           \
    SCOPED_TRACE(#name " by " #count);                        \
    hardware::name##_##count(a.lane, r.lane);                 \
    hardware::name##_##count(a.lane + 8, r.lane + 8);         \
    expect_same(stored(_mm512_##name(a.vector(), count)), r); \
  }
    HARDWARE_SHIFTS(X)
#undef X
    for (int half = 0; half < 16; half += 8) hardware::abs_epi32(a.lane + half, r.lane + half);
    expect_same(stored(_mm512_abs_epi32(a.vector())), r);
    Floats f;
    for (int half = 0; half < 16; half += 8) hardware::cvtepi32_ps(a.lane + half, f.lane + half);
    expect_same(stored(_mm512_cvtepi32_ps(a.vector())), f);

    const auto greater = [](const Words &x, const Words &y) {
      return hardware::greater_epi32(x.lane, y.lane) | hardware::greater_epi32(x.lane + 8, y.lane + 8) << 8;
    };
    EXPECT_EQ(_mm512_cmplt_epi32_mask(a.vector(), b.vector()), greater(b, a));
    EXPECT_EQ(_mm512_cmple_epi32_mask(a.vector(), b.vector()), 0xffff & ~greater(a, b));
  }
}

TEST_F(Model, EveryHalfToFloat) {
  for (uint32_t first = 0; first < 0x10000; first += 16) {
    uint16_t h[16];
    for (uint32_t i = 0; i < 16; i++) h[i] = uint16_t(first + i);
    Words expected;  // NaN with all their bits
    for (int half = 0; half < 16; half += 8)
      hardware::cvtph_ps(h + half, reinterpret_cast<float *>(expected.lane + half));
    const __m512 r = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(h)));
    expect_same(stored(_mm512_castps_si512(r)), expected);
  }
}

TEST_F(Model, FloatsToHalf) {
  const auto check = [](const Words &bits) {
    const Floats f = std::bit_cast<Floats>(bits);
    uint16_t expected[16], got[16];
    for (int half = 0; half < 16; half += 8) hardware::cvtps_ph(f.lane + half, expected + half);
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(got), _mm512_cvtps_ph(f.vector(), _MM_FROUND_TO_NEAREST_INT));
    for (int i = 0; i < 16; i++) EXPECT_EQ(got[i], expected[i]) << f.lane[i];
  };
  // Around every half and every point between two of them: all f32 whose lower 12 bits are close to 0.
  for (uint32_t upper = 0; upper < 0x100000 && !HasFailure(); upper += 4) {
    Words w;
    for (uint32_t i = 0; i < 16; i++) w.lane[i] = ((upper + i / 4) << 12) + i % 4 - 1;
    check(w);
  }
}

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
