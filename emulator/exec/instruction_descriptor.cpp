// Bit fields, and which of their values go together.
#include "exec/instruction_descriptor.h"

#include <cstdio>

namespace fa::emu {
namespace {

constexpr uint32_t field(uint32_t bits, int first, int count) {
  return bits >> first & ((1u << count) - 1);
}

std::string wrong(uint32_t bits, const char *name, uint32_t got, const std::string &expected) {
  char text[96];
  std::snprintf(text, sizeof text, "tcgen05.mma's instruction descriptor 0x%08x: ", bits);
  return text + std::string(name) + " is " + std::to_string(got) + ", expected " + expected;
}

bool element_of(MmaKind kind, uint32_t code, Element &element) {
  switch (kind) {
    case MmaKind::f16:
      element = code == 0 ? Element::f16 : Element::bf16;
      return code < 2;
    case MmaKind::tf32:
      element = Element::tf32;
      return code == 2;
    case MmaKind::i8:
      element = code == 0 ? Element::u8 : Element::s8;
      return code < 2;
    case MmaKind::f8f6f4: {
      constexpr Element elements[] = {Element::e4m3, Element::e5m2, Element::e4m3,
                                      Element::e2m3, Element::e3m2, Element::e2m1};
      if (code > 5 || code == 2) return false;
      element = elements[code];
      return true;
    }
  }
  return false;
}

const char *element_codes(MmaKind kind) {
  switch (kind) {
    case MmaKind::f16:
      return "0 (f16) or 1 (bf16) for kind::f16";
    case MmaKind::tf32:
      return "2 (tf32) for kind::tf32";
    case MmaKind::i8:
      return "0 (u8) or 1 (s8) for kind::i8";
    default:
      return "0 (e4m3), 1 (e5m2), 3 (e2m3), 4 (e3m2) or 5 (e2m1) for kind::f8f6f4";
  }
}

bool result_of(MmaKind kind, uint32_t code, MmaResult &result) {
  constexpr MmaResult results[] = {MmaResult::f16, MmaResult::f32, MmaResult::s32};
  if (code > 2) return false;
  result = results[code];
  if (kind == MmaKind::i8) return result == MmaResult::s32;
  if (kind == MmaKind::tf32) return result == MmaResult::f32;
  return result != MmaResult::s32;
}

/// Formats of 4 and 6 bits are K-major only.
bool may_transpose(Element element) {
  return element != Element::e2m3 && element != Element::e3m2 && element != Element::e2m1;
}

std::string check_shape(uint32_t bits, MmaKind kind, int group, bool ws, const MmaShape &shape) {
  uint32_t m = shape.rows, n = shape.columns;
  if (ws) {
    if (m != 32 && m != 64 && m != 128) return wrong(bits, "M (bits 24 to 28, times 16)", m, "32, 64 or 128 with .ws");
    if (n != 64 && n != 128 && n != 256) return wrong(bits, "N (bits 17 to 22, times 8)", n, "64, 128 or 256 with .ws");
    return {};
  }
  if (group == 1 && m != 64 && m != 128)
    return wrong(bits, "M (bits 24 to 28, times 16)", m, "64 or 128 with cta_group::1");
  if (group == 2 && m != 128 && m != 256)
    return wrong(bits, "M (bits 24 to 28, times 16)", m, "128 or 256 with cta_group::2");
  uint32_t step = group == 1 && m == 64 ? 8 : 16;
  // Not in the ISA's table, but shipped: CUTLASS' example 93 multiplies f16 tiles of 128 by 8.
  if (kind == MmaKind::f16 && group == 1 && n == 8) return {};
  if (n < step || n > 256 || n % step != 0)
    return wrong(bits, "N (bits 17 to 22, times 8)", n,
                 "a multiple of " + std::to_string(step) + " up to 256 with cta_group::" + std::to_string(group) +
                     " and M = " + std::to_string(m));
  return {};
}

}  // namespace

std::string read_instruction_descriptor(uint32_t bits, MmaKind kind, int group, bool ws, MmaShape &out) {
  if (uint32_t got = field(bits, 0, 3)) return wrong(bits, "the sparsity (bits 0 to 2)", got, "0 for a dense product");
  out.saturated = field(bits, 3, 1);
  if (out.saturated && kind != MmaKind::i8) return wrong(bits, "saturation (bit 3)", 1, "0 except for kind::i8");
  if (!result_of(kind, field(bits, 4, 2), out.result))
    return wrong(bits, "the type of D (bits 4 and 5)", field(bits, 4, 2),
                 kind == MmaKind::i8     ? "2 (s32) for kind::i8"
                 : kind == MmaKind::tf32 ? "1 (f32) for kind::tf32"
                                         : "0 (f16) or 1 (f32)");
  if (!element_of(kind, field(bits, 7, 3), out.a))
    return wrong(bits, "the type of A (bits 7 to 9)", field(bits, 7, 3), element_codes(kind));
  if (!element_of(kind, field(bits, 10, 3), out.b))
    return wrong(bits, "the type of B (bits 10 to 12)", field(bits, 10, 3), element_codes(kind));
  if (kind == MmaKind::f16 && out.a != out.b)
    return wrong(bits, "the type of B (bits 10 to 12)", field(bits, 10, 3), "A's for kind::f16");
  uint32_t negations = field(bits, 13, 2);
  if (negations && kind == MmaKind::i8) return wrong(bits, "negation (bits 13 and 14)", negations, "0 for kind::i8");
  out.negated = negations == 1 || negations == 2;
  out.a_transposed = field(bits, 15, 1);
  out.b_transposed = field(bits, 16, 1);
  if (out.a_transposed && !may_transpose(out.a))
    return wrong(bits, "A's major dimension (bit 15)", 1, "0, K, for elements of 4 and 6 bits");
  if (out.b_transposed && !may_transpose(out.b))
    return wrong(bits, "B's major dimension (bit 16)", 1, "0, K, for elements of 4 and 6 bits");
  for (int at : {6, 23, 29})
    if (field(bits, at, 1)) return wrong(bits, ("the reserved bit " + std::to_string(at)).c_str(), 1, "0");
  if (uint32_t shift = field(bits, 30, 2); shift && !ws)
    return wrong(bits, "the maximum shift (bits 30 and 31)", shift, "0 without .ws");
  out.columns = field(bits, 17, 6) * 8;
  out.rows = field(bits, 24, 5) * 16;
  return check_shape(bits, kind, group, ws, out);
}

}  // namespace fa::emu
