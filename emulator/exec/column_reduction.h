// The reduction of tcgen05.ld.red (PTX ISA 9.7.16.8.3): the columns that a lane loads become one number.
#pragma once

#include <cstdint>

#include "ptx/type.h"

namespace fa::emu {

/// Numbers have keys, signed integers, of which the largest wins, so that all reductions are one loop.
class ColumnReduction {
 public:
  /// nan_prevails: a NaN among the columns makes the result NaN; otherwise it is left out.
  ColumnReduction(ptx::Type type, bool largest, bool of_magnitudes, bool nan_prevails)
      : detail_(static_cast<uint16_t>(exists_bit | (type == ptx::Type::f32 ? f32_bit : 0) |
                                      (type == ptx::Type::u32 ? u32_bit : 0) | (largest ? largest_bit : 0) |
                                      (of_magnitudes ? magnitudes_bit : 0) | (nan_prevails ? nan_bit : 0))) {}

  /// As Instruction::detail keeps it; 0: none.
  explicit ColumnReduction(uint16_t detail) : detail_(detail) {}
  uint16_t detail() const { return detail_; }
  bool exists() const { return has(exists_bit); }

  int32_t key(uint32_t bits) const {
    if (has(magnitudes_bit)) bits &= 0x7fffffff;
    if (has(f32_bit) && is_nan(bits)) return has(nan_bit) ? INT32_MAX : INT32_MIN;
    auto number = static_cast<int32_t>(has(u32_bit) ? bits ^ 0x80000000 : bits);
    if (has(f32_bit)) number = of_sign_and_magnitude(number);
    return has(largest_bit) ? number : ~number;
  }

  /// The number that has a key.
  uint32_t number(int32_t key) const {
    if (!has(largest_bit)) key = ~key;
    if (has(f32_bit)) key = of_sign_and_magnitude(key);
    const uint32_t bits = static_cast<uint32_t>(key) ^ (has(u32_bit) ? 0x80000000 : 0);
    return has(f32_bit) && is_nan(bits) ? canonical_nan : bits;
  }

 private:
  enum Bit : uint16_t { exists_bit = 1, f32_bit = 2, u32_bit = 4, largest_bit = 8, magnitudes_bit = 16, nan_bit = 32 };
  static constexpr uint32_t canonical_nan = 0x7fffffff;

  bool has(Bit bit) const { return (detail_ & bit) != 0; }
  static bool is_nan(uint32_t bits) { return (bits & 0x7fffffff) > 0x7f800000; }
  /// Floats in the order of integers, -0 below +0; its own inverse.
  static int32_t of_sign_and_magnitude(int32_t bits) { return bits ^ (bits >> 31 & 0x7fffffff); }

  uint16_t detail_;
};

}  // namespace fa::emu
