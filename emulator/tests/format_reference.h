// The second formulation of small floating point formats: a sorted table of all numbers of a format, made from its
// definition with ldexp. Rounding is a search for the neighbours in it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace reference {

enum Mode { nearest, zero, down, up, away };

class Format {
 public:
  /// finite_codes: how many codes without sign are numbers; nan: the canonical NaN's code; infinity: a code, or -1.
  Format(int exponent_bits, int mantissa_bits, int bias, uint32_t finite_codes, uint32_t nan, int64_t infinity)
      : sign(1u << (exponent_bits + mantissa_bits)), nan_(nan), infinity_(infinity) {
    for (uint32_t code = 0; code < finite_codes; code++) {
      int exponent = static_cast<int>(code >> mantissa_bits);
      int fraction = static_cast<int>(code & ((1u << mantissa_bits) - 1));
      int whole = exponent ? fraction + (1 << mantissa_bits) : fraction;
      values_.push_back(std::ldexp(whole, std::max(exponent, 1) - bias - mantissa_bits));
    }
  }

  double value(uint32_t code) const {
    double magnitude = std::numeric_limits<double>::quiet_NaN();
    uint32_t rest = code & (sign - 1);
    if (rest < values_.size()) magnitude = values_[rest];
    if (int64_t{rest} == infinity_) magnitude = std::numeric_limits<double>::infinity();
    return code & sign ? -magnitude : magnitude;
  }

  /// T: double or __float128. The exact number's code.
  template <class T>
  uint32_t code(T exact, Mode mode, bool saturate) const {
    if (exact != exact) return nan_;
    bool negative = exact < 0 || (exact == 0 && std::signbit(static_cast<double>(exact)));
    T magnitude = negative ? -exact : exact;
    uint32_t last = static_cast<uint32_t>(values_.size()) - 1;
    uint32_t found = last + 1;
    bool upwards = mode == away || mode == nearest || mode == (negative ? down : up);
    if (magnitude <= T(values_[last])) {
      found = static_cast<uint32_t>(
          std::lower_bound(values_.begin(), values_.end(), magnitude, [](double a, T b) { return T(a) < b; }) -
          values_.begin());
      if (T(values_[found]) != magnitude) found = between(found, magnitude, mode, upwards);
    } else if (mode == nearest || mode == away) {
      // The next number, were there one, is as far from the largest as the one before it.
      T step = T(values_[last]) - T(values_[last - 1]), half = T(values_[last]) + step / 2;
      if (magnitude < half || (magnitude == half && mode == nearest && last % 2 == 0)) found = last;
    } else if (!upwards && magnitude < T(std::numeric_limits<double>::infinity())) {
      found = last;
    }
    if (found > last) found = saturate ? last : static_cast<uint32_t>(infinity_ >= 0 ? infinity_ : int64_t{nan_});
    return found | (negative ? sign : 0);
  }

  const uint32_t sign;

 private:
  /// above: the number after magnitude, which is no number of the format itself.
  template <class T>
  uint32_t between(uint32_t above, T magnitude, Mode mode, bool upwards) const {
    if (mode != nearest && mode != away) return upwards ? above : above - 1;
    T low = magnitude - T(values_[above - 1]), high = T(values_[above]) - magnitude;
    if (low != high) return low < high ? above - 1 : above;
    if (mode == away) return above;
    return above % 2 == 0 ? above : above - 1;
  }

  std::vector<double> values_;
  uint32_t nan_;
  int64_t infinity_;
};

inline const Format f16(5, 10, 15, 0x7c00, 0x7fff, 0x7c00);
inline const Format bf16(8, 7, 127, 0x7f80, 0x7fff, 0x7f80);
inline const Format tf32(8, 10, 127, 0x3fc00, 0x3ffff, 0x3fc00);
inline const Format e4m3(4, 3, 7, 0x7f, 0x7f, -1);
inline const Format e5m2(5, 2, 15, 0x7c, 0x7f, 0x7c);
/// NaN becomes the largest number in these.
inline const Format e3m2(3, 2, 3, 0x20, 0x1f, -1);
inline const Format e2m3(2, 3, 1, 0x20, 0x1f, -1);
inline const Format e2m1(2, 1, 1, 0x8, 0x7, -1);

}  // namespace reference
