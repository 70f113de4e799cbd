// The lines of all_elements.inc as functions of an fa_dtype. A type of fa.h that has no line does not compile.
#pragma once

#include <fa.h>

#include <cstdint>

namespace fa {

/// fa.h's enumeration of element types, by name.
using Dtype = decltype(FA_F32);

/// The column of all_elements.inc, the types with most uses first.
enum class ElementUse { compute, cache, other };

/// Bytes of one element of a validated dtype. Always inlined: compiled for an ISA, no copy of it may be linked
/// elsewhere.
[[gnu::always_inline]] constexpr int64_t dtype_bytes(fa_dtype dtype) {
  switch (static_cast<Dtype>(dtype)) {
#define FA_ELEMENT(dtype, number, name, use, bits)        \
  case FA_##dtype:                                        \
    static_assert(FA_##dtype == number && bits % 8 == 0); \
    return bits / 8;
#include "core/all_elements.inc"
#undef FA_ELEMENT
    case FA_DTYPE_DEFAULT:
      break;  // resolved
  }
  __builtin_unreachable();
}

/// The name of a dtype in fa.h; nullptr for any other number.
constexpr const char *dtype_name(fa_dtype dtype) {
  if (dtype == FA_DTYPE_DEFAULT) return "FA_DTYPE_DEFAULT";
#define FA_ELEMENT(element, number, name, use, bits) \
  if (dtype == FA_##element) return "FA_" #element;
#include "core/all_elements.inc"
#undef FA_ELEMENT
  return nullptr;
}

/// Its short name: "f16".
constexpr const char *element_name(fa_dtype dtype) {
#define FA_ELEMENT(element, number, name, use, bits) \
  if (dtype == FA_##element) return #name;
#include "core/all_elements.inc"
#undef FA_ELEMENT
  return "";
}

}  // namespace fa
