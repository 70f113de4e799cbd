// The recogniser of masks: patterns that llama.cpp makes, and the same with one element changed.
#include "integrations/ggml/mask.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <vector>

namespace fa_ggml {
namespace {

constexpr uint16_t zero = 0, hidden = 0xFC00, minus_zero = 0x8000, one = 0x3C00, lowest = 0xFBFF, nan = 0x7E00;

uint16_t half_of(float value) {  // of an integer up to 2048
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (value == 0) return 0;
  return uint16_t((bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 0x3FF));
}

struct Made {
  std::vector<uint16_t> data;
  Mask mask;
};

using Rule = std::function<bool(int64_t sequence, int64_t query, int64_t key)>;

Made make(int64_t sequences, int64_t queries, int64_t keys, const Rule &attends) {
  Made made = {std::vector<uint16_t>(sequences * queries * keys), {nullptr, keys, queries, queries * keys, sequences}};
  for (int64_t s = 0; s < sequences; ++s) {
    for (int64_t i = 0; i < queries; ++i) {
      for (int64_t j = 0; j < keys; ++j) made.data[(s * queries + i) * keys + j] = attends(s, i, j) ? zero : hidden;
    }
  }
  made.mask.data = made.data.data();
  return made;
}

// The rule that fa.h gives the pattern's fields, for one sequence.
bool attends(const Pattern &pattern, int64_t s, int64_t i, int64_t j) {
  const int64_t key = j - pattern.leftpad[s], position = i + pattern.offset[s];
  if (key < 0 || j >= pattern.used[s]) return false;
  if (pattern.causal && key > position) return false;
  return pattern.window_left < 0 || key >= position - pattern.window_left;
}

// Recognised, and the same rule in every element; and no longer recognised with any one element changed.
void expect_pattern(Made made, bool causal, int64_t window) {
  Pattern pattern;
  ASSERT_TRUE(recognise(made.mask, false, &pattern));
  EXPECT_EQ(pattern.causal, causal);
  EXPECT_EQ(pattern.window_left, window);
  EXPECT_FALSE(pattern.alibi);
  const Mask &mask = made.mask;
  for (size_t e = 0; e < made.data.size(); ++e) {
    const int64_t j = int64_t(e) % mask.keys, i = int64_t(e) / mask.keys % mask.queries,
                  s = int64_t(e) / mask.keys / mask.queries;
    EXPECT_EQ(attends(pattern, s, i, j), made.data[e] == zero) << s << ", " << i << ", " << j;
  }
  for (uint16_t &element : made.data) {
    const uint16_t before = element;
    for (const uint16_t other : {zero, hidden, minus_zero, one, lowest, nan}) {
      if (other == before) continue;
      element = other;
      Pattern changed;
      if (!recognise(mask, false, &changed)) continue;
      // Another pattern, as with the last key of a causal row hidden: then that is what the fields say.
      for (size_t e = 0; e < made.data.size(); ++e) {
        const int64_t j = int64_t(e) % mask.keys, i = int64_t(e) / mask.keys % mask.queries,
                      s = int64_t(e) / mask.keys / mask.queries;
        ASSERT_EQ(made.data[e], attends(changed, s, i, j) ? zero : hidden)
            << "changed element " << &element - made.data.data();
      }
    }
    element = before;
  }
}

TEST(GgmlMask, CausalInACacheWithUnusedCells) {
  expect_pattern(make(1, 7, 32, [](int64_t, int64_t i, int64_t j) { return j <= i + 9; }), true, -1);
}

TEST(GgmlMask, CausalFromTheFirstKey) {
  expect_pattern(make(1, 8, 8, [](int64_t, int64_t i, int64_t j) { return j <= i; }), true, -1);
}

TEST(GgmlMask, OneQuery) {
  expect_pattern(make(1, 1, 40, [](int64_t, int64_t, int64_t j) { return j >= 5 && j < 33; }), false, -1);
}

TEST(GgmlMask, FullUpToTheUsedCells) {
  expect_pattern(make(1, 6, 20, [](int64_t, int64_t, int64_t j) { return j < 17; }), false, -1);
}

TEST(GgmlMask, WindowFromTheStart) {
  expect_pattern(make(1, 16, 24, [](int64_t, int64_t i, int64_t j) { return j <= i && j > i - 5; }), true, 4);
}

TEST(GgmlMask, WindowFarFromTheStart) {
  expect_pattern(make(1, 5, 32, [](int64_t, int64_t i, int64_t j) { return j <= i + 20 && j > i + 12; }), true, 7);
}

TEST(GgmlMask, SymmetricWindow) {
  expect_pattern(make(1, 14, 14, [](int64_t, int64_t i, int64_t j) { return std::abs(i - j) <= 3; }), true, 6);
}

TEST(GgmlMask, SequencesAtTheirOwnPlaces) {
  expect_pattern(make(3, 4, 24, [](int64_t s, int64_t i, int64_t j) { return j >= s && j <= i + 5 * s + 2; }), true,
                 -1);
}

TEST(GgmlMask, WindowThatOneSequenceHasNotReached) {
  const auto rule = [](int64_t s, int64_t i, int64_t j) { return j <= i + 10 * s && j > i + 10 * s - 6; };
  expect_pattern(make(2, 4, 24, rule), true, 5);
}

TEST(GgmlMask, WindowsOfTwoWidthsAreNone) {
  const Made made = make(2, 8, 24, [](int64_t s, int64_t i, int64_t j) { return j <= i + 8 && j > i + 4 - s; });
  Pattern pattern;
  EXPECT_FALSE(recognise(made.mask, true, &pattern));
}

TEST(GgmlMask, AWindowOfOneSequenceAndAnOpenOneFarAway) {
  const Made made = make(2, 8, 24, [](int64_t s, int64_t i, int64_t j) { return j <= i + 8 && (s == 1 || j > i + 4); });
  Pattern pattern;
  EXPECT_FALSE(recognise(made.mask, true, &pattern));
}

TEST(GgmlMask, OnePlaneForAllSequences) {
  Made made = make(1, 4, 16, [](int64_t, int64_t i, int64_t j) { return j <= i + 3; });
  made.mask.plane = 0;
  made.mask.sequences = 3;
  Pattern pattern;
  ASSERT_TRUE(recognise(made.mask, false, &pattern));
  EXPECT_EQ(pattern.offset, std::vector<int32_t>(3, 3));
  EXPECT_EQ(pattern.used, std::vector<int32_t>(3, 7));
}

TEST(GgmlMask, RowsWithoutKeysAndBlocksAreNone) {
  Pattern pattern;
  EXPECT_FALSE(recognise(make(1, 4, 8, [](int64_t, int64_t i, int64_t) { return i > 0; }).mask, true, &pattern));
  EXPECT_FALSE(recognise(make(1, 4, 8, [](int64_t, int64_t, int64_t) { return false; }).mask, true, &pattern));
  EXPECT_FALSE(
      recognise(make(1, 8, 8, [](int64_t, int64_t i, int64_t j) { return i / 4 == j / 4; }).mask, true, &pattern));
}

// Distances, as llama.cpp writes them for models with ALiBi.
Made make_distances(int64_t queries, int64_t keys, int64_t offset) {
  Made made = make(1, queries, keys, [&](int64_t, int64_t i, int64_t j) { return j <= i + offset; });
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j <= i + offset; ++j) made.data[i * keys + j] = half_of(float(j - i - offset));
  }
  return made;
}

TEST(GgmlMask, DistancesAreAlibi) {
  Made made = make_distances(5, 64, 40);
  Pattern pattern;
  EXPECT_FALSE(recognise(made.mask, false, &pattern));
  ASSERT_TRUE(recognise(made.mask, true, &pattern));
  EXPECT_TRUE(pattern.alibi);
  EXPECT_TRUE(pattern.causal);
  EXPECT_EQ(pattern.offset.front(), 40);
  for (uint16_t &element : made.data) {
    const uint16_t before = element;
    element = before == hidden ? 0xC000 : uint16_t(before + 1);
    EXPECT_FALSE(recognise(made.mask, true, &pattern)) << &element - made.data.data();
    element = before;
  }
}

TEST(GgmlMask, DistancesThatBinary16RoundsAreNone) {
  Pattern pattern;
  EXPECT_TRUE(recognise(make_distances(1, 2049, 2048).mask, true, &pattern));
  EXPECT_FALSE(recognise(make_distances(1, 2050, 2049).mask, true, &pattern));
}

TEST(GgmlMask, EveryDistanceIsThatOfBinary16) {
  const Made made = make_distances(1, 2049, 2048);
  for (int64_t j = 0; j <= 2048; ++j) {
    const uint16_t bits = made.data[j];
    const int exponent = bits >> 10 & 31;
    const float value = j == 2048 ? 0 : -std::ldexp(1 + float(bits & 0x3FF) / 1024, exponent - 15);
    ASSERT_EQ(value, float(j - 2048));
  }
}

}  // namespace
}  // namespace fa_ggml
