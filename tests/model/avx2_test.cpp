// The model of the AVX-512 intrinsics against this machine's AVX2, where that does the same to half as many lanes.
#include "cpu/features.h"
#include "model/hardware.h"
#include "model/lanes.h"

namespace test {
namespace {

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

}  // namespace
}  // namespace test
