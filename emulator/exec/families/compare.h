// Comparison operators of setp and set (PTX ISA 9.7.6), by name.
#pragma once

#include <array>
#include <string_view>

#include "exec/decoder.h"

namespace fa::emu {

enum class Compare : uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan, lo, ls, hi, hs, none };

inline constexpr std::array<std::string_view, 18> compare_names{
    "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan", "lo", "ls", "hi", "hs"};

inline Compare compare_of(const Decoder &d) {
  for (size_t i = 0; i < compare_names.size(); i++)
    if (d.has(compare_names[i])) return static_cast<Compare>(i);
  return Compare::none;
}

/// Ordered comparisons are false and unordered ones true where a number is missing.
template <class T>
bool compare_values(Compare compare, T a, T b) {
  bool less = a<b, equal = a == b, greater = a> b, ordered = a == a && b == b;
  switch (compare) {
    case Compare::eq:
      return equal;
    case Compare::ne:
      return less || greater;
    case Compare::lt:
    case Compare::lo:
      return less;
    case Compare::le:
    case Compare::ls:
      return less || equal;
    case Compare::gt:
    case Compare::hi:
      return greater;
    case Compare::ge:
    case Compare::hs:
      return greater || equal;
    case Compare::equ:
      return equal || !ordered;
    case Compare::neu:
      return !equal;
    case Compare::ltu:
      return less || !ordered;
    case Compare::leu:
      return less || equal || !ordered;
    case Compare::gtu:
      return greater || !ordered;
    case Compare::geu:
      return greater || equal || !ordered;
    case Compare::num:
      return ordered;
    default:
      return !ordered;
  }
}

}  // namespace fa::emu
