// CUDA's words for the host's compiler, so that it compiles kernels/collective/tile_scheduler.cuh: the work of a block
// follows from its number and the call's parameters alone.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

// NOLINTBEGIN(bugprone-reserved-identifier): the names are CUDA's.
#define __device__

struct Index {
  uint32_t x = 0;
};
inline thread_local Index threadIdx, blockIdx, gridDim;

template <class T>
constexpr T min(T a, T b) {
  return std::min(a, b);
}
template <class T>
constexpr T max(T a, T b) {
  return std::max(a, b);
}

namespace fa::dram {

using Lanes = std::array<int32_t, 32>;  // an operand of each

/// The operands that the lanes of a warp have exchanged so far. An exchange needs the operands of all lanes, which run
/// one after another: each runs again, from its beginning, once the operands of a further exchange are known.
struct Exchanges {
  std::vector<Lanes> operands;
  size_t known = 0;  // of them
  size_t next = 0;   // of the lane that runs

  struct Unknown {};

  /// The operands of all lanes, or the end of this run.
  const Lanes &exchange(int32_t operand) {
    if (next == known) {
      operands.resize(known + 1);
      operands[next][threadIdx.x] = operand;
      throw Unknown();
    }
    return operands[next++];
  }
};
inline thread_local Exchanges exchanges;

/// The result of f in a warp whose lanes all call it, which is the same in each.
template <class F>
auto by_warp(F f) {
  Exchanges &all = exchanges;
  all = {};
  for (;; all.known++) {
    std::optional<decltype(f())> result;
    uint32_t done = 0;
    for (threadIdx.x = 0; threadIdx.x < 32; threadIdx.x++) {
      all.next = 0;
      try {
        result = f();
        done++;
        if (all.known == 0) return *result;  // nothing was exchanged
      } catch (const Exchanges::Unknown &) {
      }
    }
    if (done == 32) return *result;
    if (done > 0) throw std::logic_error("lanes of a warp part before an exchange");
  }
}

}  // namespace fa::dram

inline uint32_t __ballot_sync(uint32_t, bool value) {
  uint32_t all = 0, bit = 1;
  for (const int32_t of_lane : fa::dram::exchanges.exchange(value)) all |= of_lane != 0 ? bit : 0, bit *= 2;
  return all;
}
inline uint32_t __umulhi(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>(uint64_t{a} * b >> 32);
}
inline int32_t __popc(uint32_t value) {
  return std::popcount(value);
}
// NOLINTEND(bugprone-reserved-identifier)
