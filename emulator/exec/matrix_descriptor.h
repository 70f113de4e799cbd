// How a 64-bit matrix descriptor lays an operand of wgmma or tcgen05 out in shared memory: PTX ISA, "Asynchronous
// warpgroup level matrix shared memory layout" and "tcgen05 shared memory descriptor", with their canonical layouts.
//
// An instruction takes a strip that is 32 bytes wide along K. Its unit is a chunk of 16 bytes: of K-major operands two
// chunks a row, of MN-major ones (transposed) 16 bytes of neighbouring rows for one k.
#pragma once

#include <cstdint>
#include <string>

namespace fa::emu {

enum class Swizzle : uint8_t { none, bytes32, bytes64, bytes128, bytes128_atoms32 };

struct MatrixDescriptor {
  uint32_t start = 0;        // address in shared memory, in bytes as all that follow
  uint32_t leading = 0;      // leading dimension byte offset
  uint32_t stride = 0;       // stride dimension byte offset
  uint32_t base_offset = 0;  // 0 to 7: row of the swizzling pattern that an aligned address is in
  Swizzle swizzle = Swizzle::none;

  /// Address of chunk 0 or 1 of a row of a K-major operand.
  uint32_t row_chunk(uint32_t row, uint32_t chunk) const {
    uint32_t at = start + (row >> 3) * stride + (row & 7) * pitch();
    return swizzled(at + chunk * (swizzle == Swizzle::none ? leading : 16));
  }
  /// Address of 16 bytes of an MN-major operand: those of rows 16 c / (bytes of an element) on, for one k.
  uint32_t column_chunk(uint32_t c, uint32_t k) const {
    if (swizzle == Swizzle::none) return start + c * stride + (k & 7) * 16 + (k >> 3) * leading;
    uint32_t chunks = pitch() / 16, group = swizzle == Swizzle::bytes128_atoms32 ? 4 : 8;
    return swizzled(start + c % chunks * 16 + c / chunks * leading + k % group * pitch() + k / group * stride);
  }

 private:
  uint32_t pitch() const {
    switch (swizzle) {
      case Swizzle::none:
        return 16;
      case Swizzle::bytes32:
        return 32;
      case Swizzle::bytes64:
        return 64;
      default:
        return 128;
    }
  }
  uint32_t swizzled(uint32_t at) const {
    uint32_t line = (at >> 7) - base_offset;
    switch (swizzle) {
      case Swizzle::none:
        return at;
      case Swizzle::bytes32:
        return at ^ (line & 1) << 4;
      case Swizzle::bytes64:
        return at ^ (line & 3) << 4;
      case Swizzle::bytes128:
        return at ^ (line & 7) << 4;
      case Swizzle::bytes128_atoms32:
        return at ^ (line & 3) << 5;
    }
    return at;
  }
};

/// Reads wgmma's form; its error (field, got, expected), or nothing.
std::string read_wgmma_descriptor(uint64_t bits, MatrixDescriptor &out);
/// Reads tcgen05's form.
std::string read_tcgen05_descriptor(uint64_t bits, MatrixDescriptor &out);

}  // namespace fa::emu
