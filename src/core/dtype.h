// The lines of all_elements.inc and codes.inc as functions of an fa_dtype. A type of fa.h that has no line does not
// compile.
#pragma once

#include <fa.h>

#include <cstdint>

namespace fa {

/// fa.h's enumeration of element types, by name.
using Dtype = decltype(FA_F32);

/// The uses of an element type: in any tensor of numbers; in k and v alone; in tensors of indices alone. A column of
/// all_elements.inc, whose types are sorted by it.
enum class ElementUse { compute, cache, other };

/// How the numbers of a quantised format follow from its values: an integer or a small floating-point number, with
/// scales of the call, or blocks with a scale each. A column of codes.inc; none: no quantised format.
enum class CodeKind { none, integer, floating, block };

/// The smallest part of a row that is whole bytes: one element, or of packed types several.
struct Unit {
  int64_t elements, bytes;
};

/// The unit of a validated dtype, of 0 bytes where a tensor is absent. Always inlined: compiled for an ISA, no copy of
/// it may be linked elsewhere.
[[gnu::always_inline]] constexpr Unit unit_of(fa_dtype dtype) {
  switch (static_cast<Dtype>(dtype)) {
#define FA_ELEMENT(dtype, number, name, use, bits)        \
  case FA_##dtype:                                        \
    static_assert(FA_##dtype == number && bits % 8 == 0); \
    return {1, bits / 8};
#include "core/all_elements.inc"
#undef FA_ELEMENT
#define FA_CODES(dtype, number, name, kind, elements, bytes) \
  case FA_##dtype:                                           \
    static_assert(FA_##dtype == number);                     \
    return {elements, bytes};
#include "core/codes.inc"
#undef FA_CODES
    case FA_DTYPE_DEFAULT:
      return {1, 0};  // of a tensor that is absent
  }
  __builtin_unreachable();
}

/// Bytes of one element of a validated dtype; of a packed one, of its unit.
[[gnu::always_inline]] constexpr int64_t dtype_bytes(fa_dtype dtype) {
  return unit_of(dtype).bytes;
}

/// Bytes of n elements, one after another: whole units.
[[gnu::always_inline]] constexpr int64_t row_bytes(fa_dtype dtype, int64_t n) {
  const Unit unit = unit_of(dtype);
  return n / unit.elements * unit.bytes;
}

/// The alignment of a tensor's address: an element's bytes, and in blocks those of the scale.
constexpr int64_t alignment_of(fa_dtype dtype) {
  const Unit unit = unit_of(dtype);
  return unit.elements == 1 ? unit.bytes : unit.bytes % 2 == 0 ? 2 : 1;
}

/// Whether several elements share a byte or a block, so that one has no address.
[[gnu::always_inline]] constexpr bool is_packed(fa_dtype dtype) {
  return unit_of(dtype).elements > 1;
}

/// The kind of a type, given by any number.
[[gnu::always_inline]] constexpr CodeKind code_kind(fa_dtype dtype) {
#define FA_CODES(format, number, name, kind, elements, bytes) \
  if (dtype == number) return CodeKind::kind;
#include "core/codes.inc"
#undef FA_CODES
  return CodeKind::none;
}

[[gnu::always_inline]] constexpr bool is_quantised(fa_dtype dtype) {
  return code_kind(dtype) != CodeKind::none;
}

/// Whether quantised values are unsigned: numbers below 0 need a zero point.
[[gnu::always_inline]] constexpr bool is_unsigned(fa_dtype dtype) {
  switch (dtype) {
    case FA_U4:
      return true;
    default:
      return false;
  }
}

/// The name of a dtype in fa.h; nullptr for any other number.
constexpr const char *dtype_name(fa_dtype dtype) {
  if (dtype == FA_DTYPE_DEFAULT) return "FA_DTYPE_DEFAULT";
#define FA_ELEMENT(element, number, name, use, bits) \
  if (dtype == FA_##element) return "FA_" #element;
#define FA_CODES(format, number, name, kind, elements, bytes) FA_ELEMENT(format, number, name, cache, 0)
#include "core/all_elements.inc"
#include "core/codes.inc"
#undef FA_ELEMENT
  return nullptr;
}

/// Its short name: "f16".
constexpr const char *element_name(fa_dtype dtype) {
#define FA_ELEMENT(element, number, name, use, bits) \
  if (dtype == FA_##element) return #name;
#include "core/all_elements.inc"
#include "core/codes.inc"
#undef FA_ELEMENT
#undef FA_CODES
  return "";
}

}  // namespace fa
