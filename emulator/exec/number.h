// Bits of numbers: f16 and bf16 to f32 and back. Plain integer code, which compilers turn into vector instructions and
// which is exact on every machine.
#pragma once

#include <bit>
#include <cstdint>

namespace fa::emu {

/// Exact. NaN stays NaN, payload included.
inline float float_from_half(uint16_t half) {
  uint32_t sign = uint32_t{half & 0x8000u} << 16, rest = half & 0x7fffu;
  // The exponent is moved up by a multiplication, which normalises subnormal numbers on the way.
  float scaled = std::bit_cast<float>(rest << 13) * 0x1p112f;
  uint32_t bits = std::bit_cast<uint32_t>(scaled);
  bits = rest >= 0x7c00u ? (rest << 13) | 0x7f800000u : bits;
  return std::bit_cast<float>(bits | sign);
}

/// To nearest, ties to even; too large becomes infinity, NaN becomes the canonical 0x7fff.
inline uint16_t half_from_float(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  // Subnormal halves: adding 0.5 leaves the rounded mantissa in the lowest bits.
  uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(rest) + 0.5f) - 0x3f000000u;
  uint32_t normal = (rest + 0xfffu + (rest >> 13 & 1u) - 0x38000000u) >> 13;
  uint32_t half = rest < 0x38800000u ? small : normal;
  half = rest >= 0x477ff000u ? 0x7c00u : half;
  return rest > 0x7f800000u ? uint16_t{0x7fff} : static_cast<uint16_t>(half | sign);
}

inline float float_from_bfloat(uint16_t bfloat) {
  return std::bit_cast<float>(uint32_t{bfloat} << 16);
}

/// To nearest, ties to even; NaN becomes the canonical 0x7fff.
inline uint16_t bfloat_from_float(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return (bits & 0x7fffffffu) > 0x7f800000u ? uint16_t{0x7fff} : static_cast<uint16_t>(rounded);
}

/// The NaN that f32 instructions give, whatever NaN they got.
inline float canonical(float value) {
  return value == value ? value : std::bit_cast<float>(0x7fffffffu);
}

/// Subnormal numbers become zeros of their sign.
inline float flush(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
}

}  // namespace fa::emu
