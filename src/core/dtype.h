// What follows from an element type, where a switch that lacks one does not compile.
#pragma once

#include <fa.h>

#include <cstdint>

namespace fa {

/// fa.h's enumeration of element types, by name.
using Dtype = decltype(FA_F32);

/// Bytes of one element of a validated dtype. Always inlined: compiled for an ISA, no copy of it may be linked
/// elsewhere.
[[gnu::always_inline]] constexpr int64_t dtype_bytes(fa_dtype dtype) {
  switch (static_cast<Dtype>(dtype)) {
    case FA_F32:
    case FA_I32:
      return 4;
    case FA_F16:
    case FA_BF16:
      return 2;
    case FA_BOOL:
      return 1;
    case FA_DTYPE_DEFAULT:
      break;  // resolved
  }
  __builtin_unreachable();
}

}  // namespace fa
