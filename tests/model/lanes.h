// Vectors of 16 lanes as arrays, for the tests of the model: their contents and their comparison.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <iterator>
#include <limits>

#include "model/avx512_model.h"
#include "reference/random.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;

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

inline Floats stored(__m512 a) {
  Floats r;
  _mm512_storeu_ps(r.lane, a);
  return r;
}
inline Words stored(__m512i a) {
  return std::bit_cast<Words>(stored(_mm512_castsi512_ps(a)));
}

/// The same bits, or both NaN.
inline void expect_same(const Floats &a, const Floats &b) {
  for (int i = 0; i < 16; i++) {
    if (std::isnan(a.lane[i]) && std::isnan(b.lane[i])) continue;
    EXPECT_EQ(std::bit_cast<uint32_t>(a.lane[i]), std::bit_cast<uint32_t>(b.lane[i]))
        << "lane " << i << ": " << a.lane[i] << " for " << b.lane[i];
  }
}
inline void expect_same(const Words &a, const Words &b) {
  for (int i = 0; i < 16; i++) EXPECT_EQ(a.lane[i], b.lane[i]) << "lane " << i;
}

/// Special values, small integers and halves, and any bits at all.
inline Floats mixed_floats(Random *r) {
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
inline Words mixed_words(Random *r) {
  Words w;
  for (uint32_t &lane : w.lane) lane = r->chance(70) ? uint32_t(r->next()) : uint32_t(0x7fffffff + r->between(-2, 3));
  return w;
}

const int rounds = slow ? 500 : 4000;

}  // namespace test
