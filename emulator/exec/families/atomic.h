// The operations of atom and red: one type an operation, over the bits in memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "exec/number.h"

namespace fa::emu::atomic {

/// of(old, b, c, global): the new value in memory. Bits: the bytes that are replaced at once.
template <class T>
struct Add {
  using Bits = std::make_unsigned_t<T>;
  static Bits of(Bits old, Bits b, Bits, bool) { return old + b; }
};
/// Global memory's f32 units flush subnormal numbers, shared memory's do not.
struct AddF32 {
  using Bits = uint32_t;
  static Bits of(Bits old, Bits b, Bits, bool global) {
    float x = std::bit_cast<float>(old), y = std::bit_cast<float>(b);
    float sum = global ? flush(flush(x) + flush(y)) : x + y;
    return std::bit_cast<Bits>(canonical(sum));
  }
};
struct AddF64 {
  using Bits = uint64_t;
  static Bits of(Bits old, Bits b, Bits, bool) {
    return std::bit_cast<Bits>(std::bit_cast<double>(old) + std::bit_cast<double>(b));
  }
};

struct Half {
  static float value(uint16_t bits) { return float_from_half(bits); }
  static uint16_t bits(float value) { return half_from_float(value); }
};
struct Bfloat {
  static float value(uint16_t bits) { return float_from_bfloat(bits); }
  static uint16_t bits(float value) { return bfloat_from_float(value); }
};

/// Sums of halves are rounded twice, which is as good as once: f32 has more than twice their digits.
struct Plus {
  static float of(float a, float b) { return a + b; }
};
struct Least {
  static float of(float a, float b) {
    return a != a ? b : b != b ? a : a < b || (a == b && std::bit_cast<int32_t>(a) < 0) ? a : b;
  }
};
struct Greatest {
  static float of(float a, float b) {
    return a != a ? b : b != b ? a : a > b || (a == b && std::bit_cast<int32_t>(a) >= 0) ? a : b;
  }
};

/// B: uint16_t, or uint32_t for a pair.
template <class Kind, class F, class B>
struct OfHalves {
  using Bits = B;
  static Bits of(Bits old, Bits b, Bits, bool) {
    Bits result = 0;
    for (uint32_t shift = 0; shift < sizeof(Bits) * 8; shift += 16) {
      float x = Kind::value(static_cast<uint16_t>(old >> shift)), y = Kind::value(static_cast<uint16_t>(b >> shift));
      result = static_cast<Bits>(result | static_cast<Bits>(uint32_t{Kind::bits(F::of(x, y))} << shift));
    }
    return result;
  }
};

template <class T, bool larger>
struct Extreme {
  using Bits = std::make_unsigned_t<T>;
  static Bits of(Bits old, Bits b, Bits, bool) {
    T x = static_cast<T>(old), y = static_cast<T>(b);
    return static_cast<Bits>(larger ? std::max(x, y) : std::min(x, y));
  }
};
template <class B>
struct And {
  using Bits = B;
  static Bits of(Bits old, Bits b, Bits, bool) { return old & b; }
};
template <class B>
struct Or {
  using Bits = B;
  static Bits of(Bits old, Bits b, Bits, bool) { return old | b; }
};
template <class B>
struct Xor {
  using Bits = B;
  static Bits of(Bits old, Bits b, Bits, bool) { return old ^ b; }
};
template <class B>
struct Exchange {
  using Bits = B;
  static Bits of(Bits, Bits b, Bits, bool) { return b; }
};
template <class B>
struct CompareAndSwap {
  using Bits = B;
  static Bits of(Bits old, Bits b, Bits c, bool) { return old == b ? c : old; }
};
struct Increment {
  using Bits = uint32_t;
  static Bits of(Bits old, Bits b, Bits, bool) { return old >= b ? 0 : old + 1; }
};
struct Decrement {
  using Bits = uint32_t;
  static Bits of(Bits old, Bits b, Bits, bool) { return old == 0 || old > b ? b : old - 1; }
};

}  // namespace fa::emu::atomic
