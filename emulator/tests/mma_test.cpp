// mma.sync: every element of every fragment against plain products, by the formulas of the PTX ISA's sections on matrix
// fragments (9.7.14.5.1 to 9.7.14.5.13), which give rows and columns by lane and number of the element.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>

#include "fragments.h"
#include "short_sum_reference.h"

namespace {

using emulated::WarpKernel;

struct At {
  int row, column;
};
using Place = std::function<At(int lane, int i)>;

struct Number {
  const char *name;
  int bits, exponent_bits, mantissa_bits;  // exponent_bits 0: an integer
};
constexpr Number f16{"f16", 16, 5, 10}, bf16{"bf16", 16, 8, 7}, tf32{"tf32", 32, 8, 23}, f32{"f32", 32, 8, 23};
constexpr Number f64{"f64", 64, 11, 52}, e4m3{"e4m3", 8, 4, 3}, e5m2{"e5m2", 8, 5, 2};
constexpr Number s8{"s8", 8, 0, 0}, u8{"u8", 8, 0, 0}, s32{"s32", 32, 0, 0};

/// Bits of a value that the format holds exactly and that is normal or zero.
uint64_t bits_of(const Number &number, double value) {
  uint64_t mask = number.bits == 64 ? ~uint64_t{0} : (uint64_t{1} << number.bits) - 1;
  if (number.exponent_bits == 0) return static_cast<uint64_t>(static_cast<int64_t>(value)) & mask;
  if (value == 0) return 0;
  int exponent = 0;
  double fraction = std::frexp(std::fabs(value), &exponent);  // 0.5 to 1
  uint64_t bias = (uint64_t{1} << (number.exponent_bits - 1)) - 1;
  uint64_t mantissa = static_cast<uint64_t>(std::ldexp(2 * fraction - 1, number.mantissa_bits));
  uint64_t biased = static_cast<uint64_t>(exponent - 1) + bias;
  return mantissa | biased << number.mantissa_bits | uint64_t{value < 0} << (number.bits - 1);
}

struct Case {
  std::string opcode;  // between "mma.sync.aligned." and the types
  int m, n, k;
  Number d, a, b, c;
  int registers_a, registers_b;
  Place place_a, place_b, place_c;
  Place place_d = nullptr;  // as c where not given
};

int group(int lane) {
  return lane / 4;
}
int in_group(int lane) {
  return lane % 4;
}

// a and b by shape and width of an element; c of all shapes but Volta's.
Place a_k8_16 = [](int l, int i) { return At{group(l) + (i < 2 ? 0 : 8), in_group(l) * 2 + (i & 1)}; };
Place b_k8_16 = [](int l, int i) { return At{in_group(l) * 2 + (i & 1), group(l)}; };
Place a_k16_16 = [](int l, int i) {
  bool first = i < 2 || (4 <= i && i < 6);
  return At{group(l) + (first ? 0 : 8), in_group(l) * 2 + (i & 1) + (i < 4 ? 0 : 8)};
};
Place b_k16_16 = [](int l, int i) { return At{in_group(l) * 2 + (i & 1) + (i < 2 ? 0 : 8), group(l)}; };
Place a_k4_word = [](int l, int i) { return At{group(l) + (i == 0 ? 0 : 8), in_group(l)}; };
Place b_word = [](int l, int i) { return At{in_group(l) + 4 * i, group(l)}; };
Place a_word = [](int l, int i) { return At{group(l) + (i % 2 == 0 ? 0 : 8), in_group(l) + 4 * (i / 2)}; };
Place a_k16_8 = [](int l, int i) { return At{group(l) + (i < 4 ? 0 : 8), in_group(l) * 4 + (i & 3)}; };
Place a_k32_8 = [](int l, int i) {
  bool first = i < 4 || (8 <= i && i < 12);
  return At{group(l) + (first ? 0 : 8), in_group(l) * 4 + (i & 3) + (i < 8 ? 0 : 16)};
};
Place b_8 = [](int l, int i) { return At{in_group(l) * 4 + (i & 3) + (i < 4 ? 0 : 16), group(l)}; };
Place c_16 = [](int l, int i) { return At{group(l) + (i < 2 ? 0 : 8), in_group(l) * 2 + (i & 1)}; };

std::vector<Case> cases() {
  std::vector<Case> all;
  auto add = [&](std::string shape, int m, int k, Number d, Number a, Number b, int ra, int rb, Place pa, Place pb) {
    all.push_back({shape + ".row.col", m, 8, k, d, a, b, d, ra, rb, pa, pb, c_16});
  };
  add("m16n8k8", 16, 8, f32, f16, f16, 2, 1, a_k8_16, b_k8_16);
  add("m16n8k8", 16, 8, f32, bf16, bf16, 2, 1, a_k8_16, b_k8_16);
  add("m16n8k8", 16, 8, f16, f16, f16, 2, 1, a_k8_16, b_k8_16);
  add("m16n8k16", 16, 16, f32, f16, f16, 4, 2, a_k16_16, b_k16_16);
  add("m16n8k16", 16, 16, f32, bf16, bf16, 4, 2, a_k16_16, b_k16_16);
  add("m16n8k16", 16, 16, f16, f16, f16, 4, 2, a_k16_16, b_k16_16);
  add("m16n8k4", 16, 4, f32, tf32, tf32, 2, 1, a_k4_word, b_word);
  add("m16n8k8", 16, 8, f32, tf32, tf32, 4, 2, a_word, b_word);
  for (Number a : {e4m3, e5m2})
    for (Number b : {e4m3, e5m2})
      for (Number d : {f32, f16}) {
        add("m16n8k32", 16, 32, d, a, b, 4, 2, a_k32_8, b_8);
        add("m16n8k16", 16, 16, d, a, b, 2, 1, a_k16_8, b_8);
      }
  for (Number a : {s8, u8})
    for (Number b : {s8, u8}) {
      add("m16n8k32", 16, 32, s32, a, b, 4, 2, a_k32_8, b_8);
      add("m16n8k16", 16, 16, s32, a, b, 2, 1, a_k16_8, b_8);
      add("m8n8k16", 8, 16, s32, a, b, 1, 1, a_k16_8, b_8);
    }
  add("m8n8k4", 8, 4, f64, f64, f64, 1, 1, a_k4_word, b_word);
  add("m16n8k4", 16, 4, f64, f64, f64, 2, 1, a_k4_word, b_word);
  add("m16n8k8", 16, 8, f64, f64, f64, 4, 2, a_word, b_word);
  add("m16n8k16", 16, 16, f64, f64, f64, 8, 4, a_word, b_word);
  return all;
}

using Matrix = std::vector<std::vector<double>>;

/// Small multiples of a half, so that every sum is exact in every format.
Matrix random_matrix(int rows, int columns, const Number &number, std::mt19937 &random) {
  Matrix matrix(static_cast<size_t>(rows), std::vector<double>(static_cast<size_t>(columns)));
  bool whole = number.exponent_bits == 0, positive = std::string(number.name) == "u8";
  for (auto &row : matrix)
    for (double &value : row) {
      int steps = static_cast<int>(random() % 13) - 6;
      value = whole ? (positive ? steps + 130 : steps * 20) : steps % 4 * 0.5;
    }
  return matrix;
}

/// Elements of a fragment, element i of a lane at values[register * 32 + lane], lowest bits first.
void pack(std::vector<uint64_t> &words, int first, int registers, int word_bits, const Number &number,
          const Matrix &matrix, const Place &place) {
  int each = word_bits / number.bits;
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < registers * each; i++) {
      At at = place(lane, i);
      uint64_t bits = bits_of(number, matrix.at(static_cast<size_t>(at.row)).at(static_cast<size_t>(at.column)));
      words[static_cast<size_t>((first + i / each) * 32 + lane)] |= bits << i % each * number.bits;
    }
}

void check(const Case &one) {
  std::mt19937 random(static_cast<unsigned>(one.k * 31 + one.registers_a));
  bool wide = one.a.bits == 64;
  int word = wide ? 64 : 32;
  bool volta = one.place_d != nullptr;
  int per_lane = volta ? 8 : one.m * one.n / 32;
  int registers_c = per_lane * one.c.bits / word, registers_d = per_lane * one.d.bits / word;
  int products = volta ? 4 : 1;  // Volta: one of each quad pair, at rows 8 q on
  Matrix a = random_matrix(one.m * products, one.k, one.a, random);
  Matrix b = random_matrix(one.k * products, one.n, one.b, random);
  Matrix c = random_matrix(one.m * products, one.n, one.c, random);
  WarpKernel kernel;
  kernel.wide = wide;
  kernel.sources = one.registers_a + one.registers_b + registers_c;
  kernel.results = registers_d;
  kernel.text = "mma.sync.aligned." + one.opcode + "." + one.d.name + "." + one.a.name + "." + one.b.name + "." +
                one.c.name + " " + WarpKernel::registers('d', 0, registers_d) + ", " +
                WarpKernel::registers('s', 0, one.registers_a) + ", " +
                WarpKernel::registers('s', one.registers_a, one.registers_b) + ", " +
                WarpKernel::registers('s', one.registers_a + one.registers_b, registers_c) + ";";
  std::vector<uint64_t> words(static_cast<size_t>(kernel.sources) * 32);
  pack(words, 0, one.registers_a, word, one.a, a, one.place_a);
  pack(words, one.registers_a, one.registers_b, word, one.b, b, one.place_b);
  pack(words, one.registers_a + one.registers_b, registers_c, word, one.c, c, one.place_c);
  Matrix d = c;
  for (int row = 0; row < one.m * products; row++)
    for (int column = 0; column < one.n; column++)
      for (int k = 0; k < one.k; k++) d[row][column] += a[row][k] * b[row / one.m * one.k + k][column];
  std::vector<uint64_t> expected(static_cast<size_t>(registers_d) * 32);
  pack(expected, 0, registers_d, word, one.d, d, volta ? one.place_d : one.place_c);
  std::vector<uint64_t> result = kernel.run(words);
  ASSERT_EQ(result.size(), expected.size()) << kernel.text;
  for (size_t i = 0; i < result.size(); i++)
    ASSERT_EQ(result[i], expected[i]) << kernel.text << " register " << i / 32 << " lane " << i % 32;
}

TEST(Mma, EveryElement) {
  emulated::start();
  for (const Case &one : cases()) check(one);
}

/// Rows of quad pair q's matrices are moved by its number times the matrix's height.
TEST(Mma, VoltaLayout) {
  emulated::start();
  auto quad = [](int lane) { return lane % 16 / 4; };
  for (bool a_rows : {false, true})
    for (bool b_rows : {false, true})
      for (Number d : {f16, f32})
        for (Number c : {f16, f32}) {
          Place place_a = [=](int l, int i) {
            int row = a_rows ? l % 4 + (l < 16 ? 0 : 4) : i % 4 + (l < 16 ? 0 : 4);
            return At{8 * quad(l) + row, a_rows ? i : l % 4};
          };
          Place place_b = [=](int l, int i) {
            int column = b_rows ? i + (l < 16 ? 0 : 4) : l % 4 + (l < 16 ? 0 : 4);
            return At{4 * quad(l) + (b_rows ? l % 4 : i), column};
          };
          auto place = [=](const Number &number) -> Place {
            if (number.bits == 16) return [=](int l, int i) { return At{8 * quad(l) + l % 4 + (l < 16 ? 0 : 4), i}; };
            return [=](int l, int i) {
              return At{8 * quad(l) + (l & 1) + (i & 2) + (l < 16 ? 0 : 4), (i & 4) + (l & 2) + (i & 1)};
            };
          };
          std::string opcode = std::string("m8n8k4.") + (a_rows ? "row" : "col") + (b_rows ? ".row" : ".col");
          check({opcode, 8, 8, 4, d, f16, f16, c, 2, 2, place_a, place_b, place(c), place(d)});
        }
}

/// All values of the 8-bit formats: a column of a against ones.
TEST(Mma, EightBitValues) {
  emulated::start();
  for (const Number &number : {e4m3, e5m2})
    for (unsigned first = 0; first < 256; first += 16) {
      WarpKernel kernel;
      kernel.sources = 10;
      kernel.results = 4;
      kernel.text = std::string("mma.sync.aligned.m16n8k32.row.col.f32.") + number.name + "." + number.name +
                    ".f32 {%d0, %d1, %d2, %d3}, {%s0, %s1, %s2, %s3}, {%s4, %s5}, {%s6, %s7, %s8, %s9};";
      std::vector<uint64_t> words(320);
      for (int row = 0; row < 16; row++)
        words[static_cast<size_t>(row / 8 * 32 + row % 8 * 4)] = first + static_cast<unsigned>(row);
      for (int column = 0; column < 8; column++) words[static_cast<size_t>(4 * 32 + column * 4)] = bits_of(number, 1);
      std::vector<uint64_t> result = kernel.run(words);
      ASSERT_EQ(result.size(), 128u);
      for (int row = 0; row < 16; row++) {
        unsigned code = first + static_cast<unsigned>(row);
        int mantissa_bits = number.mantissa_bits, bias = (1 << (number.exponent_bits - 1)) - 1;
        int exponent = static_cast<int>(code & 0x7f) >> mantissa_bits;
        int mantissa = static_cast<int>(code) & ((1 << mantissa_bits) - 1);
        double value =
            std::ldexp(mantissa + (exponent ? 1 << mantissa_bits : 0), std::max(exponent, 1) - bias - mantissa_bits);
        if (number.exponent_bits == 5 && exponent == 31) value = mantissa ? NAN : INFINITY;
        if (number.exponent_bits == 4 && (code & 0x7f) == 0x7f) value = NAN;
        if (code & 0x80) value = -value;
        float got = 0;
        uint32_t bits = static_cast<uint32_t>(result[static_cast<size_t>(row / 8 * 64 + row % 8 * 4)]);
        std::memcpy(&got, &bits, sizeof got);
        if (std::isnan(value))
          ASSERT_TRUE(std::isnan(got)) << number.name << " " << code;
        else
          ASSERT_EQ(got, value) << number.name << " " << code;
      }
    }
}

/// The value of an 8-bit code.
double value_of(const Number &number, unsigned code) {
  const int bias = (1 << (number.exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(code & 0x7f) >> number.mantissa_bits;
  const int mantissa = static_cast<int>(code) & ((1 << number.mantissa_bits) - 1);
  const double value = std::ldexp(mantissa + (exponent ? 1 << number.mantissa_bits : 0),
                                  std::max(exponent, 1) - bias - number.mantissa_bits);
  return code & 0x80 ? -value : value;
}

/// Random products of which SM 89 loses bits; other SMs, and SM 89 where it is asked for, add them in f32.
TEST(Mma, ShortSumsOfEightBitProducts) {
  emulated::start();
  const char *asked = std::getenv("FA_EMU_FP8_SUMS");
  const bool is_short = emulated::capability() == 89 && !(asked && std::string(asked) == "exact");
  std::mt19937 random(5);
  int lost = 0;
  for (const Number &type_a : {e4m3, e5m2})
    for (const Number &type_b : {e4m3, e5m2})
      for (const int depth : {16, 32}) {
        const int registers_a = depth / 8, registers_b = depth / 16, sources = registers_a + registers_b + 4;
        WarpKernel kernel;
        kernel.sources = sources;
        kernel.results = 4;
        kernel.text = "mma.sync.aligned.m16n8k" + std::to_string(depth) + ".row.col.f32." + type_a.name + "." +
                      type_b.name + ".f32 {%d0, %d1, %d2, %d3}, " + WarpKernel::registers('s', 0, registers_a) + ", " +
                      WarpKernel::registers('s', registers_a, registers_b) + ", " +
                      WarpKernel::registers('s', registers_a + registers_b, 4) + ";";
        auto code = [&](const Number &type) {  // not too far apart, and no infinity
          const unsigned middle = (1u << (type.exponent_bits - 1)) - 1;
          const unsigned exponent =
              middle - 4 + static_cast<unsigned>(random() % 9) - (random() % 16 == 0 ? middle - 4 : 0);
          return exponent << type.mantissa_bits | (random() & ((1u << type.mantissa_bits) - 1)) | (random() % 2) << 7;
        };
        std::vector<std::vector<unsigned>> a(16, std::vector<unsigned>(static_cast<size_t>(depth))), b(a);
        b.resize(8);
        std::vector<std::vector<float>> c(16, std::vector<float>(8));
        for (auto &row : a)
          for (unsigned &one : row) one = code(type_a);
        for (auto &column : b)
          for (unsigned &one : column) one = code(type_b);
        for (auto &row : c)
          for (float &one : row) one = static_cast<float>(static_cast<int>(random() % 20001) - 10000) / 997;
        const Place of_a = depth == 32 ? a_k32_8 : a_k16_8;
        std::vector<uint64_t> words(static_cast<size_t>(sources) * 32);
        auto word = [&](int reg, int lane) -> uint64_t & { return words[static_cast<size_t>(reg * 32 + lane)]; };
        for (int lane = 0; lane < 32; lane++) {
          for (int i = 0; i < 4 * registers_a; i++)
            word(i / 4, lane) |= uint64_t{a[of_a(lane, i).row][of_a(lane, i).column]} << i % 4 * 8;
          for (int i = 0; i < 4 * registers_b; i++)
            word(registers_a + i / 4, lane) |= uint64_t{b[b_8(lane, i).column][b_8(lane, i).row]} << i % 4 * 8;
          for (int i = 0; i < 4; i++)
            word(registers_a + registers_b + i, lane) =
                std::bit_cast<uint32_t>(c[c_16(lane, i).row][c_16(lane, i).column]);
        }
        const std::vector<uint64_t> result = kernel.run(words);
        ASSERT_EQ(result.size(), 128u);
        const int min_a = 2 - (1 << (type_a.exponent_bits - 1)), min_b = 2 - (1 << (type_b.exponent_bits - 1));
        for (int lane = 0; lane < 32; lane++)
          for (int i = 0; i < 4; i++) {
            const At at = c_16(lane, i);
            double sum = c[at.row][at.column], exact = sum, size = std::fabs(sum);
            for (int k = 0; k < depth;) {
              std::vector<emulated::Term> terms{{sum, emulated::exponent_of(sum, -126)}};
              for (const int end = k + 16; k < end; k++) {
                const double x = value_of(type_a, a[at.row][k]), y = value_of(type_b, b[at.column][k]);
                terms.push_back({x * y, emulated::exponent_of(x, min_a) + emulated::exponent_of(y, min_b)});
                exact += x * y;
                size += std::fabs(x * y);
              }
              sum = emulated::short_sum(terms, true);
            }
            const double got = std::bit_cast<float>(static_cast<uint32_t>(result[static_cast<size_t>(i * 32 + lane)]));
            lost += std::fabs(got - exact) > size * 0x1p-20;
            if (is_short)
              ASSERT_EQ(got, sum) << kernel.text << " row " << at.row << " column " << at.column;
            else
              ASSERT_NEAR(got, exact, size * 0x1p-20) << kernel.text;
          }
      }
  EXPECT_EQ(lost > 100, is_short) << lost;
}

/// Integers wrap, and with .satfinite stay at the end of the range.
TEST(Mma, IntegerOverflow) {
  emulated::start();
  for (bool saturating : {false, true}) {
    WarpKernel kernel;
    kernel.sources = 4;
    kernel.results = 2;
    kernel.text = std::string("mma.sync.aligned.m8n8k16.row.col") + (saturating ? ".satfinite" : "") +
                  ".s32.u8.u8.s32 {%d0, %d1}, {%s0}, {%s1}, {%s2, %s3};";
    std::vector<uint64_t> words(128, 0x01010101);
    std::fill(words.begin() + 64, words.end(), 0x7ffffff8);
    std::vector<uint64_t> result = kernel.run(words);
    ASSERT_EQ(result.size(), 64u);
    for (uint64_t one : result) ASSERT_EQ(one, saturating ? 0x7fffffffu : 0x80000008u);
  }
}

}  // namespace
