// Elementwise instructions: a function of one lane's values becomes a handler for a warp.
//
//   d.run(elementwise<uint32_t, uint32_t, uint32_t>([](uint32_t a, uint32_t b) { return a + b; }));
//
// computes dst = f(a, b) over rows of u32. The function must be defined for all bits, as idle lanes are computed too.
#pragma once

#include <cstdint>

#include "exec/warp.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

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
#ifdef __AVX2__
  alignas(32) uint8_t bytes[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++) bytes[lane] = lane_bit(lane) ? 0xff : 0;
  return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_load_si256(reinterpret_cast<const __m256i *>(bytes))));
#else
  uint32_t bits = 0;
  for (uint32_t lane = 0; lane < lanes; lane++) bits |= uint32_t{static_cast<bool>(lane_bit(lane))} << lane;
  return bits;
#endif
}

/// Where to compute a row: in place, where all lanes are active. Destination and sources are the same row or do not
/// overlap, so that lanes are independent, which the loops behind FA_EMU_EACH_LANE say.
template <class D>
inline D *row_for(Warp &warp, const Instruction &instruction, uint32_t mask, D *spare) {
  return mask == all_lanes ? warp.row<D>(instruction.dst) : spare;
}
template <class D>
inline void finish_row(Warp &warp, const Instruction &instruction, uint32_t mask, const D *spare) {
  if (mask != all_lanes) store_lanes(warp.row<D>(instruction.dst), spare, mask);
}
#ifdef __clang__
#define FA_EMU_EACH_LANE _Pragma("clang loop vectorize(assume_safety)") for (uint32_t lane = 0; lane < lanes; lane++)
#else
#define FA_EMU_EACH_LANE _Pragma("GCC ivdep") for (uint32_t lane = 0; lane < lanes; lane++)
#endif

template <class F, class D, class... S>
struct Elementwise;

template <class F, class D, class A>
struct Elementwise<F, D, A> {
  static void run(Warp &warp, const Instruction &instruction, uint32_t mask) {
    const A *a = warp.row<A>(instruction.a);
    alignas(64) D spare[lanes];
    D *result = row_for(warp, instruction, mask, spare);
    FA_EMU_EACH_LANE result[lane] = F{}(a[lane]);
    finish_row(warp, instruction, mask, spare);
  }
};

template <class F, class D, class A, class B>
struct Elementwise<F, D, A, B> {
  static void run(Warp &warp, const Instruction &instruction, uint32_t mask) {
    const A *a = warp.row<A>(instruction.a);
    const B *b = warp.row<B>(instruction.b);
    alignas(64) D spare[lanes];
    D *result = row_for(warp, instruction, mask, spare);
    FA_EMU_EACH_LANE result[lane] = F{}(a[lane], b[lane]);
    finish_row(warp, instruction, mask, spare);
  }
};

template <class F, class D, class A, class B, class C>
struct Elementwise<F, D, A, B, C> {
  static void run(Warp &warp, const Instruction &instruction, uint32_t mask) {
    const A *a = warp.row<A>(instruction.a);
    const B *b = warp.row<B>(instruction.b);
    const C *c = warp.row<C>(instruction.c);
    alignas(64) D spare[lanes];
    D *result = row_for(warp, instruction, mask, spare);
    FA_EMU_EACH_LANE result[lane] = F{}(a[lane], b[lane], c[lane]);
    finish_row(warp, instruction, mask, spare);
  }
};

/// The handler that computes dst = f(a), f(a, b) or f(a, b, c); types: of the result and of the sources. f captures
/// nothing.
template <class D, class... S, class F>
constexpr Handler elementwise(F) {
  return &Elementwise<F, D, S...>::run;
}

}  // namespace fa::emu
