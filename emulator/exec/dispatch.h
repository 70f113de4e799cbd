// From a PTX type to a handler over C++ types: one generic function handles all widths.
#pragma once

#include "exec/decoder.h"
#include "exec/lanes.h"

namespace fa::emu {

/// The handler of an elementwise f over T: of one, two or three sources.
template <class T, int sources, class F>
constexpr Handler same_type(F f) {
  if constexpr (sources == 1)
    return elementwise<T, T>(f);
  else if constexpr (sources == 2)
    return elementwise<T, T, T>(f);
  else
    return elementwise<T, T, T, T>(f);
}

/// By width alone, as unsigned integers: add, and, shl. Null for other types.
template <int sources, class F>
Handler by_width(ptx::Type type, F f) {
  if (!ptx::is_integer(type)) return nullptr;
  switch (ptx::bytes_of(type)) {
    case 2:
      return same_type<uint16_t, sources>(f);
    case 4:
      return same_type<uint32_t, sources>(f);
    case 8:
      return same_type<uint64_t, sources>(f);
    default:
      return nullptr;
  }
}

/// By width and sign: min, div, rem. Null for other types.
template <int sources, class F>
Handler by_sign(ptx::Type type, F f) {
  switch (type) {
    case ptx::Type::s16:
      return same_type<int16_t, sources>(f);
    case ptx::Type::s32:
      return same_type<int32_t, sources>(f);
    case ptx::Type::s64:
      return same_type<int64_t, sources>(f);
    default:
      return by_width<sources>(type, f);
  }
}

/// Sets dst from operand 0 and a, b, c from the next ones, all of the instruction's type. False where handler is null.
inline bool same_type_operands(Decoder &d, Handler handler, size_t sources, ptx::Type type) {
  if (!handler) return false;
  d.expect_operands(sources + 1, sources + 1);
  Instruction &out = d.out();
  Slot *slots[] = {&out.a, &out.b, &out.c};
  for (size_t i = 0; i < sources; i++) *slots[i] = d.source(i + 1, type);
  out.dst = d.destination(0, type);
  return d.run(handler);
}

}  // namespace fa::emu
