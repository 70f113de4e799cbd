// Bit fields of the two forms of descriptors.
#include "exec/matrix_descriptor.h"

#include <cstdio>

namespace fa::emu {
namespace {

constexpr uint32_t field(uint64_t bits, int first, int count) {
  return static_cast<uint32_t>(bits >> first & ((uint64_t{1} << count) - 1));
}

std::string wrong(const char *instruction, uint64_t bits, const char *name, int first, int last, uint32_t got,
                  const char *expected) {
  char text[320];
  std::snprintf(text, sizeof text, "%s's matrix descriptor 0x%016llx: %s (bits %d to %d) is %u, expected %s",
                instruction, static_cast<unsigned long long>(bits), name, first, last, got, expected);
  return text;
}

void read_offsets(uint64_t bits, MatrixDescriptor &out) {
  out.start = field(bits, 0, 14) << 4;
  out.leading = field(bits, 16, 14) << 4;
  out.stride = field(bits, 32, 14) << 4;
  out.base_offset = field(bits, 49, 3);
}

/// Bits that both forms keep at 0.
std::string check_gaps(const char *instruction, uint64_t bits) {
  for (int first : {14, 30})
    if (uint32_t got = field(bits, first, 2))
      return wrong(instruction, bits, "a reserved field", first, first + 1, got,
                   "0 (addresses and offsets are given in units of 16 bytes and have 14 bits)");
  return {};
}

}  // namespace

std::string read_wgmma_descriptor(uint64_t bits, MatrixDescriptor &out) {
  read_offsets(bits, out);
  constexpr Swizzle modes[] = {Swizzle::none, Swizzle::bytes128, Swizzle::bytes64, Swizzle::bytes32};
  out.swizzle = modes[field(bits, 62, 2)];
  if (uint32_t got = field(bits, 46, 3))
    return wrong("wgmma", bits, "a reserved field", 46, 48, got, "0 (tcgen05 expects 1 there)");
  if (uint32_t got = field(bits, 52, 10))
    return wrong("wgmma", bits, "a reserved field", 52, 61, got, "0 (the swizzle mode is in bits 62 and 63)");
  return check_gaps("wgmma", bits);
}

std::string read_tcgen05_descriptor(uint64_t bits, MatrixDescriptor &out) {
  read_offsets(bits, out);
  uint32_t mode = field(bits, 61, 3);
  switch (mode) {
    case 0:
      out.swizzle = Swizzle::none;
      break;
    case 1:
      out.swizzle = Swizzle::bytes128_atoms32;
      break;
    case 2:
      out.swizzle = Swizzle::bytes128;
      break;
    case 4:
      out.swizzle = Swizzle::bytes64;
      break;
    case 6:
      out.swizzle = Swizzle::bytes32;
      break;
    default:
      return wrong("tcgen05", bits, "the swizzle mode", 61, 63, mode,
                   "0 (none), 1 (128 bytes in atoms of 32), 2 (128 bytes), 4 (64 bytes) or 6 (32 bytes)");
  }
  if (uint32_t got = field(bits, 46, 3); got != 1)
    return wrong("tcgen05", bits, "the constant", 46, 48, got, "1 (wgmma expects 0 there)");
  if (uint32_t got = field(bits, 52, 1))
    return wrong("tcgen05", bits, "the leading dimension's mode", 52, 52, got,
                 "0, an offset (absolute addresses are for strips of 48 bytes, which sm_100a has not)");
  if (uint32_t got = field(bits, 53, 8)) return wrong("tcgen05", bits, "a reserved field", 53, 60, got, "0");
  return check_gaps("tcgen05", bits);
}

}  // namespace fa::emu
