// Elementwise instructions: a function of one lane's values becomes a handler for a warp.
//
//   d.run(elementwise<uint32_t, uint32_t, uint32_t>([](uint32_t a, uint32_t b) { return a + b; }));
//
// computes dst = f(a, b) over rows of u32. The function must be defined for all bits, as idle lanes are computed too.
#pragma once

#include <cstdint>

#include "exec/warp.h"

namespace fa::emu {

/// Writes the active lanes of a computed row. The loops have fixed bounds and no branches, so they become vector code.
template <class T>
inline void store_lanes(T *row, const T *computed, uint32_t mask) {
  if (mask == all_lanes) {
    for (uint32_t lane = 0; lane < lanes; lane++) row[lane] = computed[lane];
    return;
  }
  for (uint32_t lane = 0; lane < lanes; lane++) row[lane] = mask >> lane & 1 ? computed[lane] : row[lane];
}

/// Writes the active lanes of a predicate.
inline void store_predicate(uint32_t *predicate, uint32_t value, uint32_t mask) {
  *predicate = (*predicate & ~mask) | (value & mask);
}

/// One bit a lane of a function of its values.
template <class F>
inline uint32_t collect(F lane_bit) {
  uint32_t bits = 0;
  for (uint32_t lane = 0; lane < lanes; lane++) bits |= uint32_t{static_cast<bool>(lane_bit(lane))} << lane;
  return bits;
}

template <class F, class D, class... S>
struct Elementwise;

template <class F, class D, class A>
struct Elementwise<F, D, A> {
  static void run(Warp &warp, const Instruction &instruction, uint32_t mask) {
    const A *a = warp.row<A>(instruction.a);
    alignas(64) D computed[lanes];
    for (uint32_t lane = 0; lane < lanes; lane++) computed[lane] = F{}(a[lane]);
    store_lanes(warp.row<D>(instruction.dst), computed, mask);
  }
};

template <class F, class D, class A, class B>
struct Elementwise<F, D, A, B> {
  static void run(Warp &warp, const Instruction &instruction, uint32_t mask) {
    const A *a = warp.row<A>(instruction.a);
    const B *b = warp.row<B>(instruction.b);
    alignas(64) D computed[lanes];
    for (uint32_t lane = 0; lane < lanes; lane++) computed[lane] = F{}(a[lane], b[lane]);
    store_lanes(warp.row<D>(instruction.dst), computed, mask);
  }
};

template <class F, class D, class A, class B, class C>
struct Elementwise<F, D, A, B, C> {
  static void run(Warp &warp, const Instruction &instruction, uint32_t mask) {
    const A *a = warp.row<A>(instruction.a);
    const B *b = warp.row<B>(instruction.b);
    const C *c = warp.row<C>(instruction.c);
    alignas(64) D computed[lanes];
    for (uint32_t lane = 0; lane < lanes; lane++) computed[lane] = F{}(a[lane], b[lane], c[lane]);
    store_lanes(warp.row<D>(instruction.dst), computed, mask);
  }
};

/// The handler that computes dst = f(a), f(a, b) or f(a, b, c); types: of the result and of the sources. f captures
/// nothing.
template <class D, class... S, class F>
constexpr Handler elementwise(F) {
  return &Elementwise<F, D, S...>::run;
}

}  // namespace fa::emu
