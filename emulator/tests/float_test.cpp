// Floating point arithmetic against exact numbers: halves and pairs of them, f32 and f64 in every rounding, f32x2; and
// the approximate functions within the errors that the PTX ISA documents.
#include <gtest/gtest.h>

#include <bit>
#include <functional>

#include "format_reference.h"
#include "one_instruction.h"

namespace {

__extension__ typedef __float128 Exact;

using emulated::all_below;
using emulated::Inputs;
using emulated::run_over;
using reference::Format;
using reference::Mode;

struct HalfKind {
  const char *name;
  const Format *format;
  uint32_t middle;  // exponents of random inputs are around it, so that sums are exact in 113 bits
};
const HalfKind kinds[] = {{"f16", &reference::f16, 15}, {"bf16", &reference::bf16, 127}};

Inputs half_inputs(const HalfKind &kind) {
  std::mt19937 random(5);
  uint32_t mantissa = kind.middle == 15 ? 10 : 7;
  auto one = [&]() -> uint64_t {
    uint32_t special[] = {0,
                          0x8000,
                          0x7fff,
                          0xffff,
                          static_cast<uint32_t>(kind.format->code(1e300, Mode::nearest, false)),
                          static_cast<uint32_t>(kind.format->code(-1e300, Mode::nearest, false)),
                          static_cast<uint32_t>(kind.format->code(1.0, Mode::nearest, false))};
    if (random() % 16 == 0) return special[random() % 7];
    uint32_t exponent = kind.middle == 15 ? random() % 31 : 107 + random() % 40;
    return exponent << mantissa | random() % (1u << mantissa) | random() % 2 << 15;
  };
  Inputs inputs(40000);
  for (auto &row : inputs)
    for (uint64_t &word : row) word = one() | one() << 16;
  return inputs;
}

struct HalfOperation {
  const char *text;  // "add", "fma.rn.relu"
  int sources;
  std::function<Exact(Exact, Exact, Exact)> exact;
};

/// A result under the modifiers.
Exact modified(const std::string &text, Exact value) {
  if (text.find("sat") != std::string::npos) return value > 0 ? (value < 1 ? value : 1) : 0;
  if (text.find("relu") != std::string::npos && value == value && !(value > 0)) return 0;
  return value;
}

TEST(Halves, Arithmetic) {
  const HalfOperation operations[] = {
      {"add", 2, [](Exact a, Exact b, Exact) { return a + b; }},
      {"sub", 2, [](Exact a, Exact b, Exact) { return a - b; }},
      {"mul", 2, [](Exact a, Exact b, Exact) { return a * b; }},
      {"fma.rn", 3, [](Exact a, Exact b, Exact c) { return a * b + c; }},
      {"fma.rn.relu", 3, [](Exact a, Exact b, Exact c) { return a * b + c; }},
      {"add.sat", 2, [](Exact a, Exact b, Exact) { return a + b; }},
      {"fma.rn.sat", 3, [](Exact a, Exact b, Exact c) { return a * b + c; }},
  };
  for (const HalfKind &kind : kinds)
    for (const HalfOperation &operation : operations) {
      std::string text = operation.text;
      if (kind.middle != 15 && text.find("sat") != std::string::npos) continue;
      Inputs inputs = half_inputs(kind);
      bool three = operation.sources == 3;
      std::vector<uint64_t> pair =
          run_over(text + "." + kind.name + "x2 %r7, %r0, %r1" + (three ? ", %r2;" : ";"), 'r', inputs);
      std::vector<uint64_t> single =
          run_over(text + "." + kind.name + " %h7, %h0, %h1" + (three ? ", %h2;" : ";"), 'h', inputs);
      for (size_t i = 0; i < inputs.size(); i++)
        for (int shift : {0, 16}) {
          auto value = [&](size_t k) { return Exact(kind.format->value(inputs[i][k] >> shift & 0xffff)); };
          Exact exact = modified(text, operation.exact(value(0), value(1), value(2)));
          uint32_t expected = kind.format->code(exact, Mode::nearest, false);
          uint32_t got = pair[i] >> shift & 0xffff;
          // The sign of a zero sum is the host's to test in f32.
          bool zeros = (expected & 0x7fff) == 0 && (got & 0x7fff) == 0;
          ASSERT_TRUE(got == expected || zeros) << text << kind.name << std::hex << " " << inputs[i][0] << " "
                                                << inputs[i][1] << " " << inputs[i][2] << " gives " << got;
          if (shift == 0) {
            ASSERT_EQ(single[i], got) << text;
          }
        }
    }
}

TEST(Halves, FusedOnce) {
  // 1 + 2^-11 (the middle between two halves) and a little more, which a sum in two steps would lose.
  std::vector<uint64_t> got =
      run_over("fma.rn.f16 %h7, %h0, %h1, %h2;", 'h', {{0x1000, 0x1001, 0x3c00}, {0x0001, 0x0001, 0x3c01}});
  EXPECT_EQ(got[0], 0x3c00u);
  EXPECT_EQ(got[1], 0x3c01u);
  // bf16: 2^-60 decides about the middle of 1 and its neighbour: (1 + 2^-8) + 2^-60 with 2^-8 from the product.
  got = run_over("fma.rn.bf16 %h7, %h0, %h1, %h2;", 'h', {{0x3f81, 0x3f81, 0x3b80}, {0x3f80, 0x3b80, 0x3f80}});
  EXPECT_EQ(got[0], reference::bf16.code(1.0078125 * 1.0078125 + 0x1p-8, Mode::nearest, false));
  EXPECT_EQ(got[1], 0x3f80u);
}

TEST(Halves, MinimumAndMaximum) {
  for (const HalfKind &kind : kinds)
    for (bool larger : {false, true})
      for (const char *modifier : {"", ".NaN", ".xorsign.abs"}) {
        std::string text = std::string(larger ? "max" : "min") + modifier + "." + kind.name + "x2";
        Inputs inputs = half_inputs(kind);
        std::vector<uint64_t> got = run_over(text + " %r7, %r0, %r1;", 'r', inputs);
        for (size_t i = 0; i < inputs.size(); i++)
          for (int shift : {0, 16}) {
            double a = kind.format->value(inputs[i][0] >> shift & 0xffff),
                   b = kind.format->value(inputs[i][1] >> shift & 0xffff);
            bool flip = modifier[1] == 'x' && ((inputs[i][0] ^ inputs[i][1]) >> shift & 0x8000);
            if (modifier[1] == 'x') a = std::fabs(a), b = std::fabs(b);
            double chosen = larger ? std::fmax(a, b) : std::fmin(a, b);
            if (a == 0 && b == 0)
              chosen = (larger ? std::signbit(a) && std::signbit(b) : std::signbit(a) || std::signbit(b)) ? -0.0 : 0.0;
            if (modifier[1] == 'N' && (a != a || b != b)) chosen = std::nan("");
            uint32_t expected = kind.format->code(chosen, Mode::nearest, false);
            if (flip && chosen == chosen) expected ^= 0x8000;
            ASSERT_EQ(got[i] >> shift & 0xffff, expected)
                << text << std::hex << " " << inputs[i][0] << " " << inputs[i][1];
          }
      }
}

TEST(Halves, Signs) {
  for (const HalfKind &kind : kinds) {
    std::vector<uint64_t> negated = run_over(std::string("neg.") + kind.name + " %h7, %h0;", 'h', all_below(65536));
    std::vector<uint64_t> positive = run_over(std::string("abs.") + kind.name + " %h7, %h0;", 'h', all_below(65536));
    for (uint32_t i = 0; i < 65536; i++) {
      if (kind.format->value(i) != kind.format->value(i)) continue;
      ASSERT_EQ(negated[i], i ^ 0x8000);
      ASSERT_EQ(positive[i], i & 0x7fff);
    }
  }
  std::vector<uint64_t> flushed =
      run_over("add.ftz.f16 %h7, %h0, %h1;", 'h', {{0x0001, 0x3c00, 0}, {0x0001, 0x0001, 0}});
  EXPECT_EQ(flushed[0], 0x3c00u);
  EXPECT_EQ(flushed[1], 0u);
}

/// Rounded in the given direction, by a comparison with the exact number.
template <class T>
T rounded(Exact exact, Mode mode) {
  T near = static_cast<T>(exact);
  bool above = Exact(near) > exact, below = Exact(near) < exact;
  if (mode == Mode::zero) mode = exact > 0 ? Mode::down : Mode::up;
  if (mode == Mode::down && above) return std::nextafter(near, static_cast<T>(-HUGE_VAL));
  if (mode == Mode::up && below) return std::nextafter(near, static_cast<T>(HUGE_VAL));
  return near;
}

/// add, sub and fma of f32 with f16 or bf16, in every rounding.
TEST(Floats, MixedPrecision) {
  const std::pair<const char *, Mode> modes[] = {
      {"rn", Mode::nearest}, {"rz", Mode::zero}, {"rm", Mode::down}, {"rp", Mode::up}};
  for (const HalfKind &kind : kinds) {
    Inputs inputs = half_inputs(kind);
    std::mt19937 random(3);
    for (auto &row : inputs) row[2] = std::bit_cast<uint32_t>(std::ldexp(1.f + random() * 0x1p-32f, random() % 9 - 4));
    for (const char *name : {"add", "sub", "fma"})
      for (auto [direction, mode] : modes)
        for (bool saturate : {false, true}) {
          bool three = name[0] == 'f';
          std::string text = std::string(name) + "." + direction + (saturate ? ".sat" : "") + ".f32." + kind.name +
                             " %r7, %h0, " + (three ? "%h1, " : "") + "%r2;";
          std::vector<uint64_t> got = run_over(text, 'r', inputs);
          for (size_t i = 0; i < inputs.size(); i++) {
            Exact a = kind.format->value(inputs[i][0] & 0xffff), b = kind.format->value(inputs[i][1] & 0xffff);
            Exact c = std::bit_cast<float>(static_cast<uint32_t>(inputs[i][2]));
            Exact exact = three ? a * b + c : name[0] == 'a' ? a + c : a - c;
            bool number = exact == exact && exact - exact == 0;
            if (!number) continue;
            float expected = rounded<float>(exact, mode);
            if (saturate) expected = expected > 0 ? std::fmin(expected, 1.f) : 0.f;
            ASSERT_EQ(std::bit_cast<float>(static_cast<uint32_t>(got[i])), expected)
                << text << std::hex << inputs[i][0];
          }
        }
  }
}

template <class T>
void check_directed(const char *type, char result, int spread) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  std::mt19937_64 random(11);
  Inputs inputs(8000);
  for (auto &row : inputs)
    for (uint64_t &word : row) {
      double scale = std::ldexp(1.0, static_cast<int>(random() % static_cast<uint64_t>(2 * spread + 1)) - spread);
      T value = static_cast<T>((1 + static_cast<double>(random() >> 12) * 0x1p-52) * scale * (random() % 2 ? 1 : -1));
      word = std::bit_cast<Bits>(value);
    }
  struct Operation {
    const char *name;
    int sources;
    std::function<Exact(Exact, Exact, Exact)> exact;
  };
  const Operation operations[] = {{"add", 2, [](Exact a, Exact b, Exact) { return a + b; }},
                                  {"sub", 2, [](Exact a, Exact b, Exact) { return a - b; }},
                                  {"mul", 2, [](Exact a, Exact b, Exact) { return a * b; }},
                                  {"fma", 3, [](Exact a, Exact b, Exact c) { return a * b + c; }},
                                  {"div", 2, [](Exact a, Exact b, Exact) { return a / b; }},
                                  {"rcp", 1, [](Exact a, Exact, Exact) { return 1 / a; }}};
  const std::pair<const char *, Mode> modes[] = {
      {"rn", Mode::nearest}, {"rz", Mode::zero}, {"rm", Mode::down}, {"rp", Mode::up}};
  std::string reg = std::string(" %") + result;
  for (const Operation &operation : operations)
    for (auto [name, mode] : modes) {
      std::string text = std::string(operation.name) + "." + name + "." + type + reg + "7," + reg + "0";
      if (operation.sources > 1) text += "," + reg + "1";
      if (operation.sources > 2) text += "," + reg + "2";
      std::vector<uint64_t> got = run_over(text + ";", result, inputs);
      for (size_t i = 0; i < inputs.size(); i++) {
        auto value = [&](size_t k) { return Exact(std::bit_cast<T>(static_cast<Bits>(inputs[i][k]))); };
        T expected = rounded<T>(operation.exact(value(0), value(1), value(2)), mode);
        ASSERT_EQ(std::bit_cast<T>(static_cast<Bits>(got[i])), expected) << text;
      }
    }
  for (auto [name, mode] : modes) {
    std::string text = std::string("sqrt.") + name + "." + type + reg + "7," + reg + "0;";
    for (auto &row : inputs) row[0] &= ~(uint64_t{1} << (sizeof(T) * 8 - 1));
    std::vector<uint64_t> got = run_over(text, result, inputs);
    for (size_t i = 0; i < inputs.size(); i++) {
      Exact square = std::bit_cast<T>(static_cast<Bits>(inputs[i][0]));
      T root = std::bit_cast<T>(static_cast<Bits>(got[i]));
      Exact below = std::nextafter(root, T{0}), above = std::nextafter(root, static_cast<T>(HUGE_VAL)), at = root;
      bool right = mode == Mode::nearest
                       ? (at + below) * (at + below) <= 4 * square && 4 * square <= (at + above) * (at + above)
                   : mode == Mode::up ? below * below < square && square <= at * at
                                      : at * at <= square && square < above * above;
      ASSERT_TRUE(right) << text << " " << root;
    }
  }
}

TEST(Floats, EveryRounding) {
  check_directed<float>("f32", 'r', 20);
  check_directed<double>("f64", 'd', 1);
}

TEST(Floats, PairsAreTwoFloats) {
  Inputs inputs = emulated::random_inputs(20000, 17);
  for (std::string operation : {"add.rn", "mul.rn", "fma.rn", "fma.rz", "add.rp", "mul.rn.ftz", "fma.rn.ftz"}) {
    bool three = operation.starts_with("fma");
    std::vector<uint64_t> pair = run_over(operation + ".f32x2 %d7, %d0, %d1" + (three ? ", %d2;" : ";"), 'd', inputs);
    std::vector<uint64_t> low = run_over(operation + ".f32 %r7, %r0, %r1" + (three ? ", %r2;" : ";"), 'r', inputs);
    Inputs upper = inputs;
    for (auto &row : upper)
      for (uint64_t &word : row) word >>= 32;
    std::vector<uint64_t> high = run_over(operation + ".f32 %r7, %r0, %r1" + (three ? ", %r2;" : ";"), 'r', upper);
    for (size_t i = 0; i < inputs.size(); i++) ASSERT_EQ(pair[i], high[i] << 32 | low[i]) << operation;
  }
}

TEST(Floats, FlushSaturateAndNan) {
  auto one = [](const std::string &text, float a, float b) {
    return run_over(text, 'r', {{std::bit_cast<uint32_t>(a), std::bit_cast<uint32_t>(b), 0}})[0];
  };
  EXPECT_EQ(one("add.ftz.f32 %r7, %r0, %r1;", 1e-40f, 0), 0u);
  EXPECT_EQ(one("add.ftz.f32 %r7, %r0, %r1;", -1e-40f, -0.f), 0x80000000u);
  EXPECT_EQ(one("add.f32 %r7, %r0, %r1;", 1e-40f, 0), std::bit_cast<uint32_t>(1e-40f));
  EXPECT_EQ(one("mul.ftz.f32 %r7, %r0, %r1;", 0x1p-100f, 0x1p-30f), 0u);
  EXPECT_EQ(one("add.sat.f32 %r7, %r0, %r1;", 3, 4), 0x3f800000u);
  EXPECT_EQ(one("add.sat.f32 %r7, %r0, %r1;", -3, 1), 0u);
  EXPECT_EQ(one("add.sat.f32 %r7, %r0, %r1;", NAN, 1), 0u);
  EXPECT_EQ(one("mul.f32 %r7, %r0, %r1;", INFINITY, 0), 0x7fffffffu);
  EXPECT_EQ(one("min.f32 %r7, %r0, %r1;", NAN, 2), std::bit_cast<uint32_t>(2.f));
  EXPECT_EQ(one("max.NaN.f32 %r7, %r0, %r1;", NAN, 2), 0x7fffffffu);
  EXPECT_EQ(one("min.f32 %r7, %r0, %r1;", -NAN, NAN), 0x7fffffffu);
  EXPECT_EQ(one("min.f32 %r7, %r0, %r1;", 0.f, -0.f), 0x80000000u);
  EXPECT_EQ(one("max.xorsign.abs.f32 %r7, %r0, %r1;", -2, 3), std::bit_cast<uint32_t>(-3.f));
  EXPECT_EQ(one("copysign.f32 %r7, %r0, %r1;", -2, 3), std::bit_cast<uint32_t>(-3.f));
}

struct Approximation {
  const char *text;
  double (*function)(double);
  double from, to;
  double relative, absolute;  // allowed errors, the larger of both
};

double inverse(double a) {
  return 1 / a;
}
double inverse_root(double a) {
  return 1 / std::sqrt(a);
}

TEST(Approximations, WithinTheDocumentedErrors) {
  const Approximation functions[] = {
      {"ex2.approx.f32 %r7, %r0;", std::exp2, -126, 127.9, 0x1p-22, 0},
      {"ex2.approx.ftz.f32 %r7, %r0;", std::exp2, -126, 127.9, 0x1p-22, 0},
      {"ex2.approx.f32 %r7, %r0;", std::exp2, -149, -126, 0, 0x1p-148},
      {"lg2.approx.f32 %r7, %r0;", std::log2, 0.5, 2, 0, 0x1p-22},
      {"lg2.approx.f32 %r7, %r0;", std::log2, 2, 1e30, 0x1p-22, 0},
      {"rcp.approx.f32 %r7, %r0;", inverse, 1e-30, 1e30, 0x1p-23, 0},
      {"rsqrt.approx.f32 %r7, %r0;", inverse_root, 1e-30, 1e30, 0x1.4p-23, 0},
      {"sqrt.approx.f32 %r7, %r0;", std::sqrt, 1e-30, 1e30, 0x1p-23, 0},
      {"sin.approx.f32 %r7, %r0;", std::sin, -6.28, 6.28, 0, 0x1.6ap-21},
      {"cos.approx.f32 %r7, %r0;", std::cos, -6.28, 6.28, 0, 0x1.6ap-21},
      {"tanh.approx.f32 %r7, %r0;", std::tanh, -10, 10, 0x1p-11, 0},
  };
  std::mt19937_64 random(23);
  for (const Approximation &f : functions) {
    Inputs inputs(50000);
    for (auto &row : inputs) {
      double unit = static_cast<double>(random() >> 11) * 0x1p-53;
      double x = f.to > 1e20 ? f.from * std::pow(f.to / f.from, unit) : f.from + (f.to - f.from) * unit;
      row = {std::bit_cast<uint32_t>(static_cast<float>(x)), 0, 0};
    }
    std::vector<uint64_t> got = run_over(f.text, 'r', inputs);
    for (size_t i = 0; i < inputs.size(); i++) {
      double x = std::bit_cast<float>(static_cast<uint32_t>(inputs[i][0])),
             y = std::bit_cast<float>(static_cast<uint32_t>(got[i]));
      double exact = f.function(x);
      ASSERT_LE(std::fabs(y - exact), std::max(f.relative * std::fabs(exact), f.absolute)) << f.text << " of " << x;
    }
  }
}

TEST(Approximations, OfHalves) {
  struct {
    const char *text;
    const Format &format;
    double (*function)(double);
    double relative, absolute;
  } functions[] = {{"ex2.approx.f16", reference::f16, std::exp2, 0x1.12p-10, 0x1p-24},
                   {"ex2.approx.ftz.bf16", reference::bf16, std::exp2, 0x1p-7, 0x1p-126},
                   {"tanh.approx.f16", reference::f16, std::tanh, 0, 0x1.02p-11},
                   {"tanh.approx.bf16", reference::bf16, std::tanh, 0, 0x1p-8}};
  for (const auto &f : functions) {
    std::vector<uint64_t> got = run_over(std::string(f.text) + " %h7, %h0;", 'h', all_below(65536));
    for (uint32_t i = 0; i < 65536; i++) {
      double x = f.format.value(i), y = f.format.value(static_cast<uint32_t>(got[i])), exact = f.function(x);
      if (x != x) {
        ASSERT_EQ(got[i], 0x7fffu);
        continue;
      }
      if (std::isinf(y) || std::isinf(exact)) {
        ASSERT_EQ(got[i], f.format.code(exact, Mode::nearest, false)) << f.text << " of " << x;
        continue;
      }
      ASSERT_LE(std::fabs(y - exact), std::max(f.relative * std::fabs(exact), f.absolute)) << f.text << " of " << x;
    }
  }
}

TEST(Approximations, SpecialValues) {
  auto one = [](const char *text, float a) {
    uint64_t bits = run_over(text, 'r', {{std::bit_cast<uint32_t>(a), 0, 0}})[0];
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  };
  EXPECT_EQ(one("ex2.approx.f32 %r7, %r0;", -INFINITY), 0.f);
  EXPECT_EQ(one("ex2.approx.f32 %r7, %r0;", INFINITY), INFINITY);
  EXPECT_EQ(one("ex2.approx.f32 %r7, %r0;", 0.f), 1.f);
  EXPECT_EQ(one("ex2.approx.ftz.f32 %r7, %r0;", -127.f), 0.f);
  EXPECT_EQ(one("lg2.approx.f32 %r7, %r0;", 0.f), -INFINITY);
  EXPECT_TRUE(std::isnan(one("lg2.approx.f32 %r7, %r0;", -1.f)));
  EXPECT_EQ(one("rcp.approx.f32 %r7, %r0;", -0.f), -INFINITY);
  EXPECT_EQ(one("rsqrt.approx.f32 %r7, %r0;", 0.f), INFINITY);
  EXPECT_EQ(one("tanh.approx.f32 %r7, %r0;", INFINITY), 1.f);
}

}  // namespace
