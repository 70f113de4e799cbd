// Operands of tensor core instructions as floats: element formats, and strips of a matrix in shared memory.
#pragma once

#include <cstdint>

#include "exec/matrix_descriptor.h"

namespace fa::emu {

enum class Element : uint8_t { f16, bf16, tf32, e4m3, e5m2, e2m3, e3m2, e2m1, s8, u8 };

/// Bytes that an element takes in an operand; formats of 4 and 6 bits have containers of 8.
constexpr uint32_t bytes_of(Element element) {
  switch (element) {
    case Element::f16:
    case Element::bf16:
      return 2;
    case Element::tf32:
      return 4;
    default:
      return 1;
  }
}
/// Elements along K that one instruction takes: 32 bytes.
constexpr uint32_t depth_of(Element element) {
  return 32 / bytes_of(element);
}
constexpr uint32_t greatest_depth = 32;

/// One element of an 8-bit container.
float element_value(Element element, uint8_t bits);
/// Consecutive elements.
void decode_elements(Element element, const uint8_t *from, uint32_t count, float *to);
/// The 16 elements of a chunk of shared memory: formats of 4 and 6 bits are packed at its beginning.
void decode_chunk(Element element, const uint8_t *from, float *to);

/// A CTA's shared memory, as descriptors see it: addresses without a rank.
struct SharedWindow {
  const uint8_t *bytes = nullptr;  // at address begin
  uint32_t begin = 0, end = 0;
};

/// One operand: where it is and how it is read.
struct OperandSource {
  SharedWindow window;
  MatrixDescriptor layout;
  Element element = Element::f16;
  bool mn_major = false;  // transposed
  uint32_t chunks = 2;    // of a K-major row; 1 for tcgen05.cp of 128 bits
};

/// The first part of a load that is outside of the window, if any.
struct OutsideWindow {
  bool happened = false;
  uint32_t address = 0;
};

/// Rows first to first + count of an operand, all of them multiples of 8, K running fastest: to[row * depth + k].
OutsideWindow load_rows(const OperandSource &source, uint32_t first, uint32_t count, float *to);
/// The same, rows running fastest: to[k * pitch + row].
OutsideWindow load_columns(const OperandSource &source, uint32_t first, uint32_t count, float *to, uint32_t pitch);

/// Calls visit(address) for each chunk of 16 bytes that those rows are in.
template <class Visit>
void visit_chunks(const OperandSource &source, uint32_t first, uint32_t count, Visit visit) {
  uint32_t in_chunk = 16 / bytes_of(source.element);
  if (!source.mn_major) {
    for (uint32_t row = first; row < first + count; row++)
      for (uint32_t chunk = 0; chunk < source.chunks; chunk++) visit(source.layout.row_chunk(row, chunk));
    return;
  }
  for (uint32_t k = 0; k < depth_of(source.element); k++)
    for (uint32_t c = first / in_chunk; c * in_chunk < first + count; c++) visit(source.layout.column_chunk(c, k));
}

}  // namespace fa::emu
