// mma.sync of the m16n8 and m8n8 shapes (PTX ISA 9.7.14.5), but for the Volta layout. Whatever the type, a register of
// a fragment is a tile of 8 rows over its 32 lanes, row by row: 4 lanes a row, and as many elements a lane as 4 bytes
// (of f64 8) hold. So one function handles all types and shapes.
#pragma once

#include <cstring>
#include <type_traits>

#include "exec/halves.h"
#include "exec/number.h"
#include "exec/warp.h"

#if defined(__F16C__) || defined(__FMA__)
#include <immintrin.h>
#endif

namespace fa::emu::mma {

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float Type __attribute__((vector_size(32)));
};
template <>
struct VectorOf<double> {
  typedef double Type __attribute__((vector_size(64)));
};
template <>
struct VectorOf<int64_t> {
  typedef int64_t Type __attribute__((vector_size(64)));
};
template <class T>
using Vector = typename VectorOf<T>::Type;

// Elements of a and b: their layout in registers, and their values in the product.

struct Half {
  using Bits = uint16_t;
  using Value = float;
  static void values(const Bits *bits, float *out, uint32_t) {
#ifdef __F16C__
    __m128i packed;
    std::memcpy(&packed, bits, sizeof packed);
    _mm256_storeu_ps(out, _mm256_cvtph_ps(packed));
#else
    for (int i = 0; i < 8; i++) out[i] = float_from_half(bits[i]);
#endif
  }
};

struct Bfloat {
  using Bits = uint16_t;
  using Value = float;
  static void values(const Bits *bits, float *out, uint32_t) {
    for (int i = 0; i < 8; i++) out[i] = float_from_bfloat(bits[i]);
  }
};

/// The 13 lowest bits do not count.
struct Tensor32 {
  using Bits = uint32_t;
  using Value = float;
  static void values(const Bits *bits, float *out, uint32_t) {
    for (int i = 0; i < 8; i++) out[i] = std::bit_cast<float>(bits[i] & 0xffffe000u);
  }
};

struct Double {
  using Bits = double;
  using Value = double;
  static void values(const Bits *bits, double *out, uint32_t) {
    for (int i = 0; i < 8; i++) out[i] = bits[i];
  }
};

/// Floating point of 8 bits, by a table; kind: which one (Eight::Kind).
struct Eight {
  enum Kind : uint32_t { e4m3, e5m2, kinds };
  using Bits = uint8_t;
  using Value = float;
  static const float *table(uint32_t kind);
  static void values(const Bits *bits, float *out, uint32_t kind) {
    const float *of = table(kind);
    for (int i = 0; i < 8; i++) out[i] = of[bits[i]];
  }
};

/// Integers of 8 bits; kind: 1 if signed.
struct Byte {
  using Bits = uint8_t;
  using Value = int64_t;
  static void values(const Bits *bits, int64_t *out, uint32_t kind) {
    for (int i = 0; i < 8; i++) out[i] = kind ? static_cast<int8_t>(bits[i]) : bits[i];
  }
};

// Accumulators: the layout of 8 rows of c and d in registers. Columns are kept in an order that suits.

/// Two registers: even columns, odd columns.
template <class Held>
struct Pairs {
  static constexpr int registers = 2;
  static constexpr int column(int position) { return position < 4 ? 2 * position : 2 * position - 7; }
  template <class Value>
  static void read(const Warp &warp, const Slot *slots, Vector<Value> *sum) {
    const Held *even = warp.row<Held>(slots[0]), *odd = warp.row<Held>(slots[1]);
    for (int i = 0; i < 8; i++) {
      Value values[8];
      if constexpr (std::is_same_v<Held, Value>) {
        std::memcpy(values, even + 4 * i, 4 * sizeof(Value));
        std::memcpy(values + 4, odd + 4 * i, 4 * sizeof(Value));
      } else {
        for (int j = 0; j < 4; j++) {
          values[j] = even[4 * i + j];
          values[4 + j] = odd[4 * i + j];
        }
      }
      std::memcpy(&sum[i], values, sizeof values);
    }
  }
  template <class Value>
  static void write(const Warp &warp, const Slot *slots, const Vector<Value> *sum, [[maybe_unused]] bool saturate) {
    Held *even = warp.row<Held>(slots[0]), *odd = warp.row<Held>(slots[1]);
    for (int i = 0; i < 8; i++) {
      Value values[8];
      std::memcpy(values, &sum[i], sizeof values);
      if constexpr (std::is_same_v<Held, Value>) {
        std::memcpy(even + 4 * i, values, 4 * sizeof(Value));
        std::memcpy(odd + 4 * i, values + 4, 4 * sizeof(Value));
      } else {
        for (int j = 0; j < 4; j++) {
          even[4 * i + j] = held(values[j], saturate);
          odd[4 * i + j] = held(values[4 + j], saturate);
        }
      }
    }
  }

 private:
  template <class Value>
  static Held held(Value value, bool saturate) {
    if constexpr (std::is_same_v<Held, int32_t>)
      if (saturate) value = value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : value;
    return static_cast<Held>(value);
  }
};

/// One register of f16 pairs.
struct HalfPairs {
  static constexpr int registers = 1;
  static constexpr int column(int position) { return position; }
  template <class Value>
  static void read(const Warp &warp, const Slot *slots, Vector<Value> *sum) {
    const uint16_t *row = warp.row<uint16_t>(slots[0]);
    for (int i = 0; i < 8; i++) {
      float values[8];
      Half::values(row + 8 * i, values, 0);
      std::memcpy(&sum[i], values, sizeof values);
    }
  }
  template <class Value>
  static void write(const Warp &warp, const Slot *slots, const Vector<Value> *sum, bool) {
    uint16_t *row = warp.row<uint16_t>(slots[0]);
    for (int i = 0; i < 8; i++)
      for (int j = 0; j < 8; j++) row[8 * i + j] = half_from_float(sum[i][j]);
  }
};

/// sum += a * b. Products of the small formats are exact in f32, so that fusing changes no result.
template <class Value>
inline void accumulate(Value a, const Vector<Value> &b, Vector<Value> &sum) {
#ifdef __FMA__
  if constexpr (std::is_same_v<Value, float>) {
    sum = reinterpret_cast<Vector<Value>>(
        _mm256_fmadd_ps(_mm256_set1_ps(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(sum)));
    return;
  }
#endif
  sum += a * b;
}

/// A tile of b, whose rows are columns of the matrix: out[k] is row k, its columns in the accumulators' order.
template <class Element, class Sum, int width>
void unpack_columns(const typename Element::Bits *tile, typename Element::Value (*out)[8], uint32_t kind) {
  if constexpr (sizeof(typename Element::Bits) == 2) {
    Halves rows[8];
    for (int i = 0; i < 8; i++) std::memcpy(&rows[i], tile + 8 * Sum::column(i), sizeof rows[i]);
    transpose(rows);
    for (int k = 0; k < 8; k++) Element::values(reinterpret_cast<const uint16_t *>(&rows[k]), out[k], kind);
  } else {
    typename Element::Value values[8 * width];
    for (int i = 0; i < 8 * width; i += 8) Element::values(tile + i, values + i, kind);
    for (int k = 0; k < width; k++)
      for (int i = 0; i < 8; i++) out[k][i] = values[Sum::column(i) * width + k];
  }
}

/// The shape is rows x 8 x depth. list: registers of d, a, b, c. detail: the kind of a's elements, from bit 4 on of
/// b's, bit 8: .satfinite.
template <class Element, class Sum, int rows, int depth>
void multiply(Warp &warp, const Instruction &instruction, uint32_t) {
  using Bits = typename Element::Bits;
  using Value = typename Element::Value;
  constexpr int width = 4 * (sizeof(Bits) == 8 ? 1 : 4 / static_cast<int>(sizeof(Bits)));  // of a tile
  constexpr int halves = rows / 8, tiles = depth / width, accumulators = halves * Sum::registers;
  const Slot *d = warp.list(instruction), *as = d + accumulators, *bs = as + halves * tiles, *cs = bs + tiles;
  uint32_t kind_a = instruction.detail & 15u, kind_b = instruction.detail >> 4 & 15u;
  alignas(64) Value a[halves * tiles][8 * width];
  alignas(64) Value b[depth][8];
  for (int r = 0; r < halves * tiles; r++) {
    const Bits *tile = warp.row<Bits>(as[r]);
    for (int i = 0; i < 8 * width; i += 8) Element::values(tile + i, a[r] + i, kind_a);
  }
  for (int r = 0; r < tiles; r++) unpack_columns<Element, Sum, width>(warp.row<Bits>(bs[r]), b + r * width, kind_b);
  Vector<Value> result[halves][8];
  for (int half = 0; half < halves; half++) {
    Vector<Value> *out = result[half], sum[8];
    Sum::template read<Value>(warp, cs + half * Sum::registers, sum);
    for (int r = 0; r < tiles; r++) {
      const Value *of = a[half + halves * r];
#pragma GCC unroll 8
      for (int k = 0; k < width; k++) {
        Vector<Value> line;
        std::memcpy(&line, b[r * width + k], sizeof line);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) accumulate<Value>(of[i * width + k], line, sum[i]);
      }
    }
    for (int i = 0; i < 8; i++) out[i] = sum[i];
  }
  bool saturate = instruction.detail >> 8 & 1;
  for (int half = 0; half < halves; half++)
    Sum::template write<Value>(warp, d + half * Sum::registers, result[half], saturate);
}

}  // namespace fa::emu::mma
