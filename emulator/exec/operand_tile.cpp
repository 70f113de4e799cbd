// Formats to floats: loops that become vector code, and tables for formats of 8 bits.
#include "exec/operand_tile.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "exec/mma_tile.h"
#include "exec/number.h"

namespace fa::emu {
namespace {

using Table = std::array<float, 256>;

/// A format of sign, exponent and mantissa in the lowest bits of a byte.
float small_float(uint32_t bits, int exponent_bits, int mantissa_bits) {
  int sign_at = exponent_bits + mantissa_bits, bias = (1 << (exponent_bits - 1)) - 1;
  uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  uint32_t exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
  float fraction = static_cast<float>(mantissa) / static_cast<float>(1 << mantissa_bits);
  float magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
  return bits >> sign_at & 1 ? -magnitude : magnitude;
}

float value_of(Element element, uint32_t bits) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  switch (element) {
    case Element::e4m3:
      return (bits & 0x7f) == 0x7f ? nan : small_float(bits, 4, 3);
    case Element::e5m2:
      if ((bits & 0x7f) > 0x7c) return nan;
      if ((bits & 0x7f) == 0x7c) return bits & 0x80 ? -infinity : infinity;
      return small_float(bits, 5, 2);
    case Element::e2m3:
      return small_float(bits & 0x3f, 2, 3);
    case Element::e3m2:
      return small_float(bits & 0x3f, 3, 2);
    case Element::e2m1:
      return small_float(bits & 0xf, 2, 1);
    case Element::s8:
      return static_cast<float>(static_cast<int8_t>(bits));
    default:
      return static_cast<float>(bits);
  }
}

Table make_table(Element element) {
  Table table;
  for (uint32_t bits = 0; bits < 256; bits++) table[bits] = value_of(element, bits);
  return table;
}

const Table &table_of(Element element) {
  static const std::array<Table, 10> tables = [] {
    std::array<Table, 10> all;
    for (size_t i = 0; i < all.size(); i++) all[i] = make_table(static_cast<Element>(i));
    return all;
  }();
  return tables[static_cast<size_t>(element)];
}

void decode_halves(const uint8_t *from, uint32_t count, float *to) {
  uint32_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from + 2 * i))));
#endif
  for (; i < count; i++) {
    uint16_t bits;
    std::memcpy(&bits, from + 2 * i, 2);
    to[i] = float_from_half(bits);
  }
}

template <uint32_t count>
void decode_bfloats(const uint8_t *from, float *to) {
  uint16_t bits[count];
  std::memcpy(bits, from, sizeof bits);
  for (uint32_t i = 0; i < count; i++) to[i] = float_from_bfloat(bits[i]);
}

}  // namespace

float element_value(Element element, uint8_t bits) {
  return table_of(element)[bits];
}

void decode_elements(Element element, const uint8_t *from, uint32_t count, float *to) {
  switch (element) {
    case Element::f16:
      return decode_halves(from, count, to);
    case Element::bf16:
      for (; count >= 16; from += 32, to += 16, count -= 16) decode_bfloats<16>(from, to);
      for (uint32_t i = 0; i < count; i++) {
        uint16_t bits;
        std::memcpy(&bits, from + 2 * i, 2);
        to[i] = float_from_bfloat(bits);
      }
      return;
    case Element::tf32:
      // The lower 13 bits of a register are ignored.
      for (uint32_t i = 0; i < count; i++) {
        uint32_t bits;
        std::memcpy(&bits, from + 4 * i, 4);
        to[i] = std::bit_cast<float>(bits & 0xffffe000u);
      }
      return;
    default: {
      const Table &table = table_of(element);
      for (uint32_t i = 0; i < count; i++) to[i] = table[from[i]];
    }
  }
}

void decode_chunk(Element element, const uint8_t *from, float *to) {
  bool four = element == Element::e2m1, six = element == Element::e2m3 || element == Element::e3m2;
  if (element == Element::bf16) return decode_bfloats<8>(from, to);
  if (!four && !six) return decode_elements(element, from, 16 / bytes_of(element), to);
  const Table &table = table_of(element);
  uint32_t width = four ? 4 : 6;
  for (uint32_t i = 0; i < 16; i++) {
    uint32_t at = i * width;
    uint32_t pair = from[at / 8] | uint32_t{from[at / 8 + 1]} << 8;
    to[i] = table[pair >> at % 8 & ((1u << width) - 1)];
  }
}

namespace {

/// Elements in the order of memory: runs of a row for K-major, of a k for MN-major operands.
OutsideWindow load_natural(const OperandSource &source, uint32_t first, uint32_t count, float *to, uint32_t pitch) {
  const SharedWindow &window = source.window;
  uint32_t in_chunk = 16 / bytes_of(source.element), depth = depth_of(source.element);
  OutsideWindow outside;
  auto chunk = [&](uint32_t address, float *place, uint32_t wanted) {
    if (address < window.begin || address + 16 > window.end) {
      outside = {true, address};
      return;
    }
    const uint8_t *bytes = window.bytes + (address - window.begin);
    if (wanted >= in_chunk) return decode_chunk(source.element, bytes, place);
    float all[16];
    decode_chunk(source.element, bytes, all);
    std::memcpy(place, all, wanted * sizeof(float));
  };
  if (source.mn_major) {
    for (uint32_t k = 0; k < depth; k++)
      for (uint32_t row = 0; row < count; row += in_chunk)
        chunk(source.layout.column_chunk((first + row) / in_chunk, k), to + k * pitch + row, count - row);
    return outside;
  }
  for (uint32_t row = 0; row < count; row++)
    for (uint32_t half = 0; half < 2; half++)
      chunk(source.layout.row_chunk(first + row, half), to + row * pitch + half * in_chunk, in_chunk);
  return outside;
}

void transpose(const float *from, uint32_t from_pitch, uint32_t rows, uint32_t columns, float *to, uint32_t to_pitch) {
  for (uint32_t row = 0; row < rows; row += 8)
    for (uint32_t column = 0; column < columns; column += 8)
      transpose8(from + row * from_pitch + column, from_pitch, to + column * to_pitch + row, to_pitch);
}

constexpr uint32_t greatest_rows = 256;

}  // namespace

OutsideWindow load_rows(const OperandSource &source, uint32_t first, uint32_t count, float *to) {
  uint32_t depth = depth_of(source.element);
  if (!source.mn_major) return load_natural(source, first, count, to, depth);
  alignas(64) float natural[greatest_depth * greatest_rows];
  OutsideWindow outside = load_natural(source, first, count, natural, count);
  transpose(natural, count, depth, count, to, depth);
  return outside;
}

OutsideWindow load_columns(const OperandSource &source, uint32_t first, uint32_t count, float *to, uint32_t pitch) {
  uint32_t depth = depth_of(source.element);
  if (source.mn_major) return load_natural(source, first, count, to, pitch);
  alignas(64) float natural[greatest_depth * greatest_rows];
  OutsideWindow outside = load_natural(source, first, count, natural, depth);
  transpose(natural, depth, count, depth, to, pitch);
  return outside;
}

}  // namespace fa::emu
