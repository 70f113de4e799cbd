// mma.sync of 4-bit integers, single bits, 4- and 6-bit floating point and factors of blocks: every element of every
// fragment against plain products, by the formulas of the PTX ISA's sections on matrix fragments (9.7.14.5).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "fragments.h"

namespace {

using emulated::WarpKernel;
using Matrix = std::vector<std::vector<double>>;

/// bits: of an element in a register; low: bits below its own ones.
struct Number {
  const char *name;
  int bits, exponent_bits, mantissa_bits, low = 0;

  double value(uint32_t code) const {
    if (std::string(name) == "s4") return code > 7 ? static_cast<double>(code) - 16 : code;
    if (exponent_bits == 0) return code;
    code >>= low;
    int exponent = static_cast<int>(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
    int mantissa = static_cast<int>(code) & ((1 << mantissa_bits) - 1);
    int bias = (1 << (exponent_bits - 1)) - 1;
    if (exponent) mantissa += 1 << mantissa_bits;
    double magnitude = std::ldexp(mantissa, std::max(exponent, 1) - bias - mantissa_bits);
    return code >> (exponent_bits + mantissa_bits) & 1 ? -magnitude : magnitude;
  }
  uint32_t random_code(std::mt19937 &random) const {
    if (exponent_bits == 0) return static_cast<uint32_t>(random()) & ((1u << bits) - 1);
    // Small exponents, so that all sums are exact in f32.
    uint32_t exponents = std::min(4, 1 << exponent_bits), bias = (1u << (exponent_bits - 1)) - 1;
    uint32_t exponent = exponent_bits < 3 ? static_cast<uint32_t>(random()) % exponents
                                          : bias - 2 + static_cast<uint32_t>(random()) % exponents;
    uint32_t mantissa = static_cast<uint32_t>(random()) & ((1u << mantissa_bits) - 1);
    uint32_t sign = static_cast<uint32_t>(random()) & 1;
    return (sign << (exponent_bits + mantissa_bits) | exponent << mantissa_bits | mantissa) << low;
  }
};
constexpr Number s4{"s4", 4, 0, 0}, u4{"u4", 4, 0, 0}, b1{"b1", 1, 0, 0}, e4m3{"e4m3", 8, 4, 3}, e5m2{"e5m2", 8, 5, 2};
constexpr Number e3m2{"e3m2", 8, 3, 2}, e2m3{"e2m3", 8, 2, 3}, wide_e2m1{"e2m1", 8, 2, 1, 2}, e2m1{"e2m1", 4, 2, 1};

/// Element i of a lane of a: of 16 rows, halves of the registers alternate between rows below and above 8.
void place_a(int lane, int i, int each, int rows, int &row, int &k) {
  int part = i / each;
  row = lane / 4 + (rows == 16 && part % 2 == 1 ? 8 : 0);
  k = lane % 4 * each + i % each + (part >= 2 ? 4 * each : 0);
}
void place_b(int lane, int i, int each, int &k, int &column) {
  k = lane % 4 * each + i % each + (i >= each ? 4 * each : 0);
  column = lane / 4;
}

struct Case {
  std::string shape;
  int rows, depth;
  Number a, b;
  const char *sum = "s32";           // or f32, f16
  std::string kind = "", tail = "";  // modifiers before the shape and behind the types
  int blocks = 0;
  bool ue4m3 = false;
  int byte_a = 0, thread_a = 0, byte_b = 0, thread_b = 0;
};

struct Operand {
  Matrix values;
  std::vector<uint64_t> words;
};

Operand random_operand(const Case &c, bool is_a, int registers, std::mt19937 &random) {
  const Number &number = is_a ? c.a : c.b;
  int each = 32 / number.bits, rows = is_a ? c.rows : 8;
  Operand made{Matrix(static_cast<size_t>(rows), std::vector<double>(static_cast<size_t>(c.depth))),
               std::vector<uint64_t>(static_cast<size_t>(registers) * 32)};
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < registers * each; i++) {
      int row = 0, k = 0;
      is_a ? place_a(lane, i, each, c.rows, row, k) : place_b(lane, i, each, k, row);
      uint32_t code = number.random_code(random);
      made.values.at(static_cast<size_t>(row)).at(static_cast<size_t>(k)) = number.value(code);
      made.words[static_cast<size_t>(i / each * 32 + lane)] |= uint64_t{code} << i % each * number.bits;
    }
  return made;
}

/// Factors: bytes at random, of which those of the chosen threads count.
std::vector<uint64_t> random_factors(bool ue4m3, std::mt19937 &random) {
  std::vector<uint64_t> words(32);
  for (uint64_t &word : words)
    for (int byte = 0; byte < 4; byte++)
      word |= uint64_t{ue4m3 ? 0x30 + random() % 16 : 126 + random() % 4} << 8 * byte;
  return words;
}

double factor(const Case &c, const std::vector<uint64_t> &words, int lane, int byte) {
  uint32_t code = static_cast<uint32_t>(words[static_cast<size_t>(lane)] >> 8 * byte) & 255;
  return c.ue4m3 ? e4m3.value(code) : std::ldexp(1.0, static_cast<int>(code) - 127);
}

uint32_t sum_bits(const Case &c, double value) {
  if (std::string(c.sum) == "s32") return static_cast<uint32_t>(static_cast<int32_t>(value));
  float single = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &single, 4);
  return bits;
}

void check(const Case &c) {
  std::mt19937 random(static_cast<unsigned>(c.depth * 7 + c.rows + c.byte_a + 3 * c.thread_b));
  bool half = std::string(c.sum) == "f16";
  int registers_b = c.depth * c.b.bits / 128, registers_a = registers_b * c.rows / 8, registers_c = c.rows / 8;
  if (!half) registers_c *= 2;
  Operand a = random_operand(c, true, registers_a, random), b = random_operand(c, false, registers_b, random);
  std::vector<uint64_t> of_a = random_factors(c.ue4m3, random), of_b = random_factors(c.ue4m3, random);
  WarpKernel kernel;
  int first_c = registers_a + registers_b, first_factor = first_c + registers_c;
  kernel.sources = first_factor + 2;
  kernel.results = registers_c;
  kernel.text = "mma.sync.aligned." + c.kind + c.shape + ".row.col." + c.sum + "." + c.a.name + "." + c.b.name + "." +
                c.sum + c.tail + " " + WarpKernel::registers('d', 0, registers_c) + ", " +
                WarpKernel::registers('s', 0, registers_a) + ", " +
                WarpKernel::registers('s', registers_a, registers_b) + ", " +
                WarpKernel::registers('s', first_c, registers_c);
  auto place = [](int byte, int thread) { return ", {" + std::to_string(byte) + ", " + std::to_string(thread) + "}"; };
  if (c.blocks)
    kernel.text += ", " + WarpKernel::registers('s', first_factor, 1) + place(c.byte_a, c.thread_a) + ", " +
                   WarpKernel::registers('s', first_factor + 1, 1) + place(c.byte_b, c.thread_b);
  kernel.text += ";";
  std::vector<uint64_t> words = a.words;
  words.insert(words.end(), b.words.begin(), b.words.end());
  for (int i = 0; i < registers_c * 32; i++) words.push_back(half ? 0 : sum_bits(c, i % 32 - 7));
  words.insert(words.end(), of_a.begin(), of_a.end());
  words.insert(words.end(), of_b.begin(), of_b.end());
  std::vector<uint64_t> result = kernel.run(words);
  ASSERT_EQ(result.size(), static_cast<size_t>(registers_c) * 32) << kernel.text;
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < c.rows / 4; i++) {
      int row = lane / 4 + (i < 2 ? 0 : 8), column = lane % 4 * 2 + i % 2;
      double sum = half ? 0 : lane - 7;
      for (int k = 0; k < c.depth; k++) {
        double x = a.values[static_cast<size_t>(row)][static_cast<size_t>(k)];
        double y = b.values[static_cast<size_t>(column)][static_cast<size_t>(k)];
        if (c.blocks) {
          int block = k / (c.depth / c.blocks);
          x *= factor(c, of_a, row % 8 * 4 + 2 * c.thread_a + row / 8, c.byte_a + block);
          y *= factor(c, of_b, column * 4 + c.thread_b, c.byte_b + block);
        }
        sum += c.tail == ".xor.popc" ? x != y : x * y;
      }
      size_t word = static_cast<size_t>(half ? i / 2 : i) * 32 + static_cast<size_t>(lane);
      if (half) {
        _Float16 narrow = static_cast<_Float16>(sum);
        uint16_t bits;
        std::memcpy(&bits, &narrow, 2);
        ASSERT_EQ(result[word] >> i % 2 * 16 & 0xffff, bits) << kernel.text << " lane " << lane;
      } else {
        ASSERT_EQ(result[word], sum_bits(c, sum)) << kernel.text << " register " << i << " lane " << lane;
      }
    }
}

TEST(MmaNarrow, Integers) {
  emulated::start();
  for (const Number &a : {s4, u4})
    for (const Number &b : {s4, u4}) {
      check({"m8n8k32", 8, 32, a, b});
      check({"m16n8k32", 16, 32, a, b});
      check({"m16n8k64", 16, 64, a, b});
    }
  for (const char *tail : {".xor.popc", ".and.popc"}) {
    check({"m8n8k128", 8, 128, b1, b1, "s32", "", tail});
    check({"m16n8k128", 16, 128, b1, b1, "s32", "", tail});
    check({"m16n8k256", 16, 256, b1, b1, "s32", "", tail});
  }
}

TEST(MmaNarrow, SmallFloats) {
  emulated::start();
  for (const Number &a : {e4m3, e5m2, e3m2, e2m3, wide_e2m1})
    for (const Number &b : {e4m3, e5m2, e3m2, e2m3, wide_e2m1})
      for (const char *sum : {"f32", "f16"}) check({"m16n8k32", 16, 32, a, b, sum, "kind::f8f6f4."});
}

TEST(MmaNarrow, FactorsOfBlocks) {
  emulated::start();
  for (int thread_a : {0, 1})
    for (int thread_b : {0, 1, 2, 3}) {
      for (int byte : {0, 1, 2, 3})
        check({"m16n8k32", 16, 32, e3m2, e4m3, "f32", "kind::mxf8f6f4.block_scale.scale_vec::1X.", ".ue8m0", 1, false,
               byte, thread_a, 3 - byte, thread_b});
      for (int byte : {0, 2})
        for (const char *kind : {"kind::mxf4.block_scale.scale_vec::2X.", "kind::mxf4nvf4.block_scale.scale_vec::2X."})
          check({"m16n8k64", 16, 64, e2m1, e2m1, "f32", kind, ".ue8m0", 2, false, byte, thread_a, 2 - byte, thread_b});
      for (bool ue4m3 : {false, true})
        check({"m16n8k64", 16, 64, e2m1, e2m1, "f32", "kind::mxf4nvf4.block_scale.scale_vec::4X.",
               ue4m3 ? ".ue4m3" : ".ue8m0", 4, ue4m3, 0, thread_a, 0, thread_b});
    }
}

/// There is no second pair of bytes at byte 1.
TEST(MmaNarrow, FactorsThatAreNotThere) {
  WarpKernel kernel;
  kernel.sources = 12;
  kernel.results = 4;
  kernel.text =
      "mma.sync.aligned.kind::mxf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0 "
      "{%d0, %d1, %d2, %d3}, {%s0, %s1, %s2, %s3}, {%s4, %s5}, {%s6, %s7, %s8, %s9}, {%s10}, {1, 0}, {%s11}, {0, 0};";
  auto refused = [&] {
    emulated::start();
    return kernel.run(std::vector<uint64_t>(12 * 32)).empty();
  };
  EXPECT_EXIT(std::_Exit(refused() ? 0 : 1), testing::ExitedWithCode(0), "");
}

}  // namespace
