// Small floating point formats, described by numbers: any of them from and to double, in any rounding. One function
// each way handles f16, bf16, tf32, f32, e4m3, e5m2, e3m2, e2m3, e2m1 (PTX ISA 5.2.3, "Alternate Floating-Point Data
// Formats"). double holds every value of them exactly, so encode rounds once where its argument was exact.
#pragma once

#include <bit>
#include <cstdint>

namespace fa::emu {

enum class Round : uint8_t { nearest, zero, down, up, away };  // .rn .rz .rm .rp .rna

struct Format {
  int mantissa_bits;
  int bias;
  uint32_t largest;   // encoding of the largest finite number, without sign
  uint32_t infinity;  // for numbers that are too large; the format's NaN where it has no infinity
  uint32_t nan;       // the canonical one
  uint32_t sign;      // the sign's bit
};

constexpr Format f16_format{10, 15, 0x7bff, 0x7c00, 0x7fff, 0x8000};
constexpr Format bf16_format{7, 127, 0x7f7f, 0x7f80, 0x7fff, 0x8000};
constexpr Format f32_format{23, 127, 0x7f7fffff, 0x7f800000, 0x7fffffff, 0x80000000};
/// As the upper bits of an f32; the 13 bits below are zeros.
constexpr Format tf32_format{10, 127, 0x3fbff, 0x3fc00, 0x3ffff, 0x40000};
constexpr Format e4m3_format{3, 7, 0x7e, 0x7f, 0x7f, 0x80};
constexpr Format e5m2_format{2, 15, 0x7b, 0x7c, 0x7f, 0x80};
/// These have neither infinity nor NaN: large numbers saturate, NaN becomes the largest number.
constexpr Format e3m2_format{2, 3, 0x1f, 0x1f, 0x1f, 0x20};
constexpr Format e2m3_format{3, 1, 0x1f, 0x1f, 0x1f, 0x20};
constexpr Format e2m1_format{1, 1, 0x7, 0x7, 0x7, 0x8};

/// 2^exponent, for the exponents of normal doubles.
inline double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

/// A number without fraction, from one that is not negative and less than 2^52.
template <Round round>
double whole_of(double value, bool negative) {
  double nearest = (value + 0x1p52) - 0x1p52;  // ties to even
  if constexpr (round == Round::nearest) return nearest;
  double below = nearest > value ? nearest - 1 : nearest;
  double above = below < value ? below + 1 : below;
  if constexpr (round == Round::zero) return below;
  if constexpr (round == Round::down) return negative ? above : below;
  if constexpr (round == Round::up) return negative ? below : above;
  return value - below >= 0.5 ? above : below;
}

/// Rounded to the format. saturate: too large a number, infinity too, becomes the largest finite one (.satfinite).
template <Format format, Round round, bool saturate>
uint32_t encode(double value) {
  uint64_t bits = std::bit_cast<uint64_t>(value);
  bool negative = bits >> 63;
  uint64_t magnitude_bits = bits & ~(uint64_t{1} << 63);
  int exponent = static_cast<int>(magnitude_bits >> 52) - 1023;
  constexpr int lowest = 1 - format.bias;
  // Beyond the range of all formats the scale below would leave the range of double's exponents.
  int clamped = exponent < lowest ? lowest : (exponent > 200 ? 200 : exponent);
  double scaled = std::bit_cast<double>(magnitude_bits) * power_of_two(format.mantissa_bits - clamped);
  if (exponent > 200) scaled = 0x1p23;
  uint32_t whole = static_cast<uint32_t>(whole_of<round>(scaled, negative));
  uint32_t code = (static_cast<uint32_t>(clamped - lowest) << format.mantissa_bits) + whole;
  bool to_infinity = round == Round::nearest || round == Round::away || round == (negative ? Round::down : Round::up);
  bool infinite = magnitude_bits == 0x7ff0000000000000u;
  uint32_t beyond = saturate || (!to_infinity && !infinite) ? format.largest : format.infinity;
  if (code > format.largest || infinite) code = beyond;
  if (magnitude_bits > 0x7ff0000000000000u) return format.nan;
  return code | (negative ? format.sign : 0);
}

/// Exact.
template <Format format>
double decode(uint32_t code) {
  uint32_t magnitude = code & (format.sign - 1);
  uint32_t fraction = magnitude & ((1u << format.mantissa_bits) - 1), exponent = magnitude >> format.mantissa_bits;
  constexpr int lowest = 1 - format.bias;
  double value = exponent == 0 ? fraction * power_of_two(lowest - format.mantissa_bits)
                               : (fraction + (1u << format.mantissa_bits)) *
                                     power_of_two(static_cast<int>(exponent) - format.bias - format.mantissa_bits);
  if (magnitude > format.largest) {
    bool infinite = magnitude == format.infinity && format.infinity != format.nan;
    value = std::bit_cast<double>(infinite ? 0x7ff0000000000000u : 0x7ff8000000000000u);
  }
  return code & format.sign ? -value : value;
}

/// a + b, rounded to odd: with the lowest bit set where the sum is not exact. Rounding that to a format of at most 51
/// bits gives the same as rounding the exact sum.
inline double sum_to_odd(double a, double b) {
  double sum = a + b;
  double part = sum - a;
  double error = (a - (sum - part)) + (b - part);  // exact (Knuth)
  uint64_t bits = std::bit_cast<uint64_t>(sum);
  bool inexact = error != 0 && error == error && (bits & 0x7ff0000000000000u) != 0x7ff0000000000000u;
  if (!inexact || (bits & 1)) return sum;
  bool away = (error > 0) == (sum > 0);  // the exact sum is farther from zero than the rounded one
  return std::bit_cast<double>(away ? bits + 1 : bits - 1);
}

}  // namespace fa::emu
