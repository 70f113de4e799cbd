// An independent formulation for the tensor core tests: number formats bit by bit, and where the elements of a
// matrix are in shared memory, by rows and columns (as TMA writes them), not by address bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace tensor {

/// A floating point format; integers have no exponent.
struct Format {
  const char *name;
  int bytes, exponent, mantissa;
  bool integer = false, is_signed = true;

  double value(uint32_t bits) const {
    int width = integer ? 8 : 1 + exponent + mantissa;
    bits &= width == 32 ? ~0u : (1u << width) - 1;
    if (integer) return is_signed && bits > 127 ? static_cast<double>(bits) - 256 : static_cast<double>(bits);
    int bias = (1 << (exponent - 1)) - 1, e = static_cast<int>(bits >> mantissa) & ((1 << exponent) - 1);
    double m = static_cast<double>(bits & ((1u << mantissa) - 1)) * std::pow(2.0, -mantissa);
    double magnitude = e == 0 ? m * std::pow(2.0, 1 - bias) : (1 + m) * std::pow(2.0, e - bias);
    return bits >> (exponent + mantissa) & 1 ? -magnitude : magnitude;
  }
};

inline const Format f16{"f16", 2, 5, 10}, bf16{"bf16", 2, 8, 7}, tf32{"tf32", 4, 8, 23}, e4m3{"e4m3", 1, 4, 3},
    e5m2{"e5m2", 1, 5, 2}, e2m3{"e2m3", 1, 2, 3}, e3m2{"e3m2", 1, 3, 2}, e2m1{"e2m1", 1, 2, 1},
    s8{"s8", 1, 0, 0, true, true}, u8{"u8", 1, 0, 0, true, false};

/// A matrix of random elements whose products and sums are exact in every accumulator: multiples of 1/8 below 2.
struct Matrix {
  int rows, depth;
  std::vector<uint32_t> bits;
  std::vector<double> values;

  /// any: all finite values of the format.
  Matrix(const Format &format, int matrix_rows, int matrix_depth, uint32_t seed, bool any = false)
      : rows(matrix_rows), depth(matrix_depth) {
    std::vector<uint32_t> candidates;
    int width = format.integer ? 8 : 1 + format.exponent + format.mantissa;
    uint32_t step = width == 32 ? 1u << 13 : 1;
    for (uint64_t b = 0; b < uint64_t{1} << width; b += step) {
      double v = format.value(static_cast<uint32_t>(b)) * 8;
      const bool infinite = format.exponent == 5 ? (b & 0x7c) == 0x7c : (b & 0x7f) == 0x7f;
      if (any ? !infinite : format.integer || (std::abs(v) < 16 && v == std::floor(v)))
        candidates.push_back(static_cast<uint32_t>(b));
    }
    std::mt19937 random(seed);
    for (int i = 0; i < rows * depth; i++) {
      bits.push_back(candidates[random() % candidates.size()]);
      values.push_back(format.value(bits.back()));
    }
  }
  double at(int row, int k) const { return values[static_cast<size_t>(row * depth + k)]; }
};

/// The layout of an operand in shared memory. width: bytes of a swizzled line, 16: no swizzling.
struct Layout {
  int width = 128;
  bool transposed = false;
  int leading = 0, stride = 0;  // bytes
  bool atoms32 = false;         // units of 32 bytes change places, in a pattern of four lines

  /// Byte of element (row, k) from the operand's beginning.
  size_t byte(const Format &format, int row, int k) const {
    int size = format.bytes, in_chunk = 16 / size;
    if (width == 16 && !transposed) {
      int b = k * size;
      return static_cast<size_t>(row / 8 * stride + row % 8 * 16 + b / 16 * leading + b % 16);
    }
    if (width == 16)
      return static_cast<size_t>(row / in_chunk * stride + k / 8 * leading + k % 8 * 16 + row % in_chunk * size);
    int line = transposed ? k : row, along = (transposed ? row : k) * size, group = atoms32 ? 4 : 8;
    int unit = along % width / 16, inside = along % 16;
    int period = width == 128 ? line % 8 : width == 64 ? line / 2 % 4 : line / 4 % 2;
    unit = atoms32 ? unit ^ (line % 4 << 1) : unit ^ period;
    int block = along / width * (transposed ? leading : 0);
    return static_cast<size_t>(block + line / group * stride + line % group * width + unit * 16 + inside);
  }

  void write(const Format &format, const Matrix &matrix, uint8_t *to) const {
    for (int row = 0; row < matrix.rows; row++)
      for (int k = 0; k < matrix.depth; k++) {
        uint32_t bits = matrix.bits[static_cast<size_t>(row * matrix.depth + k)];
        std::memcpy(to + byte(format, row, k), &bits, static_cast<size_t>(format.bytes));
      }
  }
};

}  // namespace tensor
