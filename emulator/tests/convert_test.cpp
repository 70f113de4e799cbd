// cvt over all 16-bit and 8-bit inputs, and over f32 inputs around every boundary, against tables of the formats'
// numbers (format_reference.h).
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "format_reference.h"
#include "one_instruction.h"

namespace {

using emulated::all_below;
using emulated::Inputs;
using emulated::run_over;
using reference::Format;
using reference::Mode;

double f32(uint64_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}

/// f32 numbers with every upper half, and lower halves around the places where rounding changes.
Inputs floats() {
  Inputs inputs;
  for (uint64_t upper = 0; upper < 65536; upper += 3)
    for (uint64_t lower : {0x0000, 0x0001, 0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xf000})
      inputs.push_back({upper << 16 | lower, 0, 0});
  return inputs;
}

struct Case {
  const char *rounding;
  Mode mode;
};
constexpr Case directions[] = {{"rn", Mode::nearest}, {"rz", Mode::zero}, {"rm", Mode::down}, {"rp", Mode::up}};

TEST(Convert, HalvesToFloat) {
  for (auto [name, format] : {std::pair{"f16", &reference::f16}, {"bf16", &reference::bf16}}) {
    std::vector<uint64_t> got = run_over("cvt.f32." + std::string(name) + " %r7, %h0;", 'r', all_below(65536));
    for (uint32_t code = 0; code < 65536; code++) {
      double expected = format->value(code);
      if (expected != expected)
        ASSERT_NE(f32(got[code]), f32(got[code])) << name << " " << code;
      else
        ASSERT_EQ(got[code], std::bit_cast<uint32_t>(static_cast<float>(expected))) << name << " " << code;
    }
  }
}

void check_floats_to(const char *name, const Format &format, Case direction, const char *modifiers, bool saturate,
                     bool relu) {
  static const Inputs inputs = floats();
  std::string text = std::string("cvt.") + direction.rounding + modifiers + "." + name + ".f32 %h7, %r0;";
  std::vector<uint64_t> got = run_over(text, 'h', inputs);
  for (size_t i = 0; i < inputs.size(); i++) {
    double value = f32(inputs[i][0]);
    if (relu && value <= 0) value = 0;
    ASSERT_EQ(got[i], format.code(value, direction.mode, saturate)) << text << " of " << std::hex << inputs[i][0];
  }
}

TEST(Convert, FloatsToHalves) {
  for (Case direction : directions) {
    check_floats_to("f16", reference::f16, direction, "", false, false);
    check_floats_to("bf16", reference::bf16, direction, "", false, false);
  }
  check_floats_to("f16", reference::f16, directions[0], ".satfinite", true, false);
  check_floats_to("bf16", reference::bf16, directions[1], ".relu", false, true);
}

TEST(Convert, FloatsToPairs) {
  Inputs inputs = floats();
  for (auto &row : inputs) row[1] = row[0] * 2654435761 & 0xffffffff;
  for (auto [name, format] : {std::pair{"f16x2", &reference::f16}, {"bf16x2", &reference::bf16}})
    for (Case direction : {directions[0], directions[1]})
      for (bool relu : {false, true}) {
        std::string text =
            std::string("cvt.") + direction.rounding + (relu ? ".relu." : ".") + name + ".f32 %r7, %r0, %r1;";
        std::vector<uint64_t> got = run_over(text, 'r', inputs);
        for (size_t i = 0; i < inputs.size(); i++) {
          double high = f32(inputs[i][0]), low = f32(inputs[i][1]);
          if (relu && high <= 0) high = 0;
          if (relu && low <= 0) low = 0;
          uint32_t expected =
              format->code(high, direction.mode, false) << 16 | format->code(low, direction.mode, false);
          ASSERT_EQ(got[i], expected) << text << std::hex << " " << inputs[i][0] << " " << inputs[i][1];
        }
      }
}

TEST(Convert, Tf32) {
  Inputs inputs = floats();
  for (Case direction : {Case{"rna", Mode::away}, directions[0], directions[1]}) {
    std::vector<uint64_t> got = run_over(std::string("cvt.") + direction.rounding + ".tf32.f32 %r7, %r0;", 'r', inputs);
    for (size_t i = 0; i < inputs.size(); i++) {
      double value = f32(inputs[i][0]);
      uint32_t expected = value != value ? 0x7fffffff : reference::tf32.code(value, direction.mode, false) << 13;
      ASSERT_EQ(got[i], expected) << direction.rounding << " " << std::hex << inputs[i][0];
    }
  }
}

struct Narrow {
  const char *name;
  const Format *format;
  int bits;
};
const Narrow narrow[] = {{"e4m3x2", &reference::e4m3, 8},
                         {"e5m2x2", &reference::e5m2, 8},
                         {"e3m2x2", &reference::e3m2, 8},
                         {"e2m3x2", &reference::e2m3, 8},
                         {"e2m1x2", &reference::e2m1, 4}};

/// The 4-bit pair is a .b8, which inline code has to declare.
std::string narrow_text(const Narrow &to, const std::string &text) {
  if (to.bits == 8) return text + " %h7, ";
  return "{ .reg .b8 t; " + text + " t, ";
}

TEST(Convert, FloatsToNarrow) {
  Inputs inputs = floats();
  for (auto &row : inputs) row[1] = row[0] * 2654435761 & 0xffffffff;
  for (const Narrow &to : narrow)
    for (const char *relu : {"", ".relu"}) {
      std::string text = narrow_text(to, std::string("cvt.rn.satfinite") + relu + "." + to.name + ".f32") + "%r0, %r1;";
      if (to.bits == 4) text += " cvt.u16.u8 %h7, t; }";
      std::vector<uint64_t> got = run_over(text, 'h', inputs);
      for (size_t i = 0; i < inputs.size(); i++) {
        double high = f32(inputs[i][0]), low = f32(inputs[i][1]);
        if (*relu && high <= 0) high = 0;
        if (*relu && low <= 0) low = 0;
        uint32_t expected =
            to.format->code(high, Mode::nearest, true) << to.bits | to.format->code(low, Mode::nearest, true);
        ASSERT_EQ(got[i], expected) << text << std::hex << " " << inputs[i][0] << " " << inputs[i][1];
      }
    }
}

TEST(Convert, HalvesToFp8) {
  Inputs inputs = all_below(65536);
  for (auto &row : inputs) row[0] |= (row[0] * 40503 & 0xffff) << 16;
  for (const Narrow &to : {narrow[0], narrow[1]}) {
    std::vector<uint64_t> got = run_over(std::string("cvt.rn.satfinite.") + to.name + ".f16x2 %h7, %r0;", 'h', inputs);
    for (size_t i = 0; i < inputs.size(); i++) {
      double high = reference::f16.value(inputs[i][0] >> 16), low = reference::f16.value(inputs[i][0] & 0xffff);
      ASSERT_EQ(got[i], to.format->code(high, Mode::nearest, true) << 8 | to.format->code(low, Mode::nearest, true))
          << to.name << std::hex << " " << inputs[i][0];
    }
  }
}

TEST(Convert, NarrowToHalves) {
  for (const Narrow &from : narrow) {
    std::string text = std::string("cvt.rn.f16x2.") + from.name + " %r7, ";
    text = from.bits == 8 ? text + "%h0;" : "{ .reg .b8 t; cvt.u8.u16 t, %h0; " + text + "t; }";
    bool six = std::strcmp(from.name, "e3m2x2") == 0 || std::strcmp(from.name, "e2m3x2") == 0;
    uint32_t part = six ? 63 : (1u << from.bits) - 1;
    Inputs inputs = all_below(uint64_t{1} << (2 * from.bits));
    std::vector<uint64_t> got = run_over(text, 'r', inputs);
    for (size_t i = 0; i < inputs.size(); i++)
      for (int upper : {0, 1}) {
        uint32_t code = static_cast<uint32_t>(i >> (upper * from.bits)) & part;
        if (six && (i >> (upper * from.bits) & 0xc0)) continue;
        ASSERT_EQ(got[i] >> (16 * upper) & 0xffff, reference::f16.code(from.format->value(code), Mode::nearest, false))
            << from.name << std::hex << " " << i;
      }
  }
}

/// Powers of two, by logarithms.
TEST(Convert, Scales) {
  Inputs inputs = floats();
  for (bool up : {false, true})
    for (bool finite : {false, true}) {
      std::string text =
          std::string("cvt.") + (up ? "rp" : "rz") + (finite ? ".satfinite" : "") + ".ue8m0x2.f32 %h7, %r1, %r0;";
      std::vector<uint64_t> got = run_over(text, 'h', inputs);
      for (size_t i = 0; i < inputs.size(); i++) {
        double value = std::fabs(f32(inputs[i][0]));
        double power = up ? std::ceil(std::log2(value)) : std::floor(std::log2(value));
        int code = value != value ? 255
                   : power < -127 ? 0
                   : power > 127  ? (finite ? 254 : 255)
                                  : static_cast<int>(power) + 127;
        ASSERT_EQ(got[i] & 255, static_cast<uint64_t>(code)) << text << std::hex << " " << inputs[i][0];
      }
    }
  std::vector<uint64_t> got = run_over("cvt.rn.bf16x2.ue8m0x2 %r7, %h0;", 'r', all_below(65536));
  for (uint32_t i = 0; i < 65536; i++)
    for (int upper : {0, 1}) {
      uint32_t code = i >> (8 * upper) & 255;
      double value = code == 255 ? std::nan("") : std::ldexp(1.0, static_cast<int>(code) - 127);
      ASSERT_EQ(got[i] >> (16 * upper) & 0xffff, reference::bf16.code(value, Mode::nearest, false)) << i;
    }
}

template <class T>
uint64_t integer_of(double value, bool nan_is_limit) {
  if (value != value) return nan_is_limit ? uint64_t{1} << (sizeof(T) * 8 - 1) : 0;
  long double wide = value;
  if (wide > static_cast<long double>(std::numeric_limits<T>::max())) wide = std::numeric_limits<T>::max();
  if (wide < static_cast<long double>(std::numeric_limits<T>::min())) wide = std::numeric_limits<T>::min();
  return static_cast<std::make_unsigned_t<T>>(static_cast<T>(wide));
}

template <class T>
void check_to_integer(const char *type, char result) {
  std::string reg = result == 'd' ? "%d7" : result == 'r' ? "%r7" : "%h7";
  constexpr uint64_t bits = sizeof(T) == 8 ? UINT64_MAX : (uint64_t{1} << (sizeof(T) * 8 % 64)) - 1;
  for (auto [rounding, whole] : {std::pair{"rni", +[](double v) { return std::nearbyint(v); }},
                                 {"rzi", +[](double v) { return std::trunc(v); }},
                                 {"rmi", +[](double v) { return std::floor(v); }},
                                 {"rpi", +[](double v) { return std::ceil(v); }}}) {
    std::string head = std::string("cvt.") + rounding + "." + type;
    for (auto [name, format] : {std::pair{"f16", &reference::f16}, {"bf16", &reference::bf16}}) {
      std::vector<uint64_t> got = run_over(head + "." + name + " " + reg + ", %h0;", result, all_below(65536));
      for (uint32_t i = 0; i < 65536; i++)
        ASSERT_EQ(got[i] & bits, integer_of<T>(whole(format->value(i)), sizeof(T) == 8)) << head << name << " " << i;
    }
    static const Inputs inputs = floats();
    std::vector<uint64_t> got = run_over(head + ".f32 " + reg + ", %r0;", result, inputs);
    for (size_t i = 0; i < inputs.size(); i++)
      ASSERT_EQ(got[i] & bits, integer_of<T>(whole(f32(inputs[i][0])), sizeof(T) == 8)) << head << "f32 " << i;
  }
}

TEST(Convert, ToIntegers) {
  check_to_integer<uint8_t>("u8", 'h');
  check_to_integer<int8_t>("s8", 'h');
  check_to_integer<uint16_t>("u16", 'h');
  check_to_integer<int16_t>("s16", 'h');
  check_to_integer<uint32_t>("u32", 'r');
  check_to_integer<int32_t>("s32", 'r');
  check_to_integer<uint64_t>("u64", 'd');
  check_to_integer<int64_t>("s64", 'd');
}

__extension__ typedef __float128 Exact;

TEST(Convert, FromIntegers) {
  Inputs inputs = emulated::random_inputs(20000, 3);
  for (uint64_t i = 0; i < 65536; i++) inputs.push_back({i << 16 | i, 0, 0});
  for (Case direction : directions)
    for (const char *type : {"u16", "s16", "u32", "s32", "u64", "s64"}) {
      auto value = [&](uint64_t bits) -> Exact {
        bool sign = type[0] == 's';
        if (type[1] == '1') return sign ? Exact(static_cast<int16_t>(bits)) : Exact(static_cast<uint16_t>(bits));
        if (type[1] == '3') return sign ? Exact(static_cast<int32_t>(bits)) : Exact(static_cast<uint32_t>(bits));
        return sign ? Exact(static_cast<int64_t>(bits)) : Exact(bits);
      };
      const char *reg = type[1] == '1' ? "%h0" : type[1] == '3' ? "%r0" : "%d0";
      for (auto [name, format] : {std::pair{"f16", &reference::f16}, {"bf16", &reference::bf16}}) {
        std::string text = std::string("cvt.") + direction.rounding + "." + name + "." + type + " %h7, " + reg + ";";
        std::vector<uint64_t> got = run_over(text, 'h', inputs);
        for (size_t i = 0; i < inputs.size(); i++)
          ASSERT_EQ(got[i], format->code(value(inputs[i][0]), direction.mode, false))
              << text << std::hex << inputs[i][0];
      }
      std::string text = std::string("cvt.") + direction.rounding + ".f32." + type + " %r7, " + reg + ";";
      std::vector<uint64_t> got = run_over(text, 'r', inputs);
      for (size_t i = 0; i < inputs.size(); i++) {
        Exact exact = value(inputs[i][0]);
        float result = std::bit_cast<float>(static_cast<uint32_t>(got[i]));
        float below = std::nextafter(result, -HUGE_VALF), above = std::nextafter(result, HUGE_VALF);
        Exact error = exact - Exact(result), size = exact < 0 ? -exact : exact;
        Exact room = direction.mode == Mode::nearest ? (Exact(above) - Exact(below)) / 4 : Exact(above) - Exact(result);
        ASSERT_LE(error < 0 ? -error : error, room) << text << std::hex << inputs[i][0];
        if (direction.mode == Mode::down) {
          ASSERT_GE(error, 0) << text << inputs[i][0];
        }
        if (direction.mode == Mode::up) {
          ASSERT_LE(error, 0) << text << inputs[i][0];
        }
        if (direction.mode == Mode::zero) {
          ASSERT_LE(std::fabs(result), size) << text << inputs[i][0];
        }
      }
    }
}

TEST(Convert, WholeNumbersAndSaturation) {
  Inputs inputs = floats();
  std::vector<uint64_t> whole = run_over("cvt.rni.f32.f32 %r7, %r0;", 'r', inputs);
  std::vector<uint64_t> clamped = run_over("cvt.sat.f32.f32 %r7, %r0;", 'r', inputs);
  for (size_t i = 0; i < inputs.size(); i++) {
    float value = static_cast<float>(f32(inputs[i][0]));
    if (value != value) {
      ASSERT_EQ(clamped[i], 0u);
      continue;
    }
    ASSERT_EQ(whole[i], std::bit_cast<uint32_t>(std::rint(value))) << value;
    ASSERT_EQ(f32(clamped[i]), value <= 0 ? 0 : value >= 1 ? 1 : value) << value;
  }
}

TEST(Convert, Packs) {
  Inputs inputs = emulated::random_inputs(4000, 4);
  struct Kind {
    const char *name;
    int bits;
    int64_t least, most;
  };
  for (Kind kind : {Kind{"s16", 16, -32768, 32767}, {"u16", 16, 0, 65535}, {"s8", 8, -128, 127}, {"u8", 8, 0, 255}}) {
    bool three = kind.bits == 8;
    std::string text =
        std::string("cvt.pack.sat.") + kind.name + (three ? ".s32.b32 %r7, %r0, %r1, %r2;" : ".s32 %r7, %r0, %r1;");
    std::vector<uint64_t> got = run_over(text, 'r', inputs);
    for (size_t i = 0; i < inputs.size(); i++) {
      auto part = [&](size_t k) {
        int64_t value = static_cast<int32_t>(inputs[i][k]);
        value = value < kind.least ? kind.least : value > kind.most ? kind.most : value;
        return static_cast<uint64_t>(value) & ((1u << kind.bits) - 1);
      };
      uint64_t expected = part(0) << kind.bits | part(1);
      if (three) expected |= inputs[i][2] << 16 & 0xffff0000;
      ASSERT_EQ(got[i], expected) << text;
    }
  }
}

}  // namespace
