// Elementwise instructions whose lanes hold one value or a vector of them (f16x2, f32x2): a row of lanes is then simply
// a longer row of values. Unlike elementwise (exec/lanes.h), the function sees Instruction::detail, where a family
// keeps its modifiers.
#pragma once

#include <cstring>
#include <utility>

#include "exec/dispatch.h"

namespace fa::emu {

template <class Lane, class T, class F, size_t... source>
void run_packed(Warp &warp, const Instruction &instruction, uint32_t mask, std::index_sequence<source...>) {
  constexpr uint32_t count = lanes * sizeof(Lane) / sizeof(T);
  const Slot slots[] = {instruction.a, instruction.b, instruction.c};
  const T *rows[] = {warp.row<T>(slots[source])...};
  const uint16_t detail = instruction.detail;
  alignas(64) T computed[count];
  for (uint32_t i = 0; i < count; i++) computed[i] = F{}(detail, rows[source][i]...);
  alignas(64) Lane whole[lanes];
  std::memcpy(whole, computed, sizeof whole);
  store_lanes(warp.row<Lane>(instruction.dst), whole, mask);
}

/// dst = F{}(detail, a, b, c) for every T of every Lane; F has no state.
template <class Lane, class T, class F, size_t sources>
void packed(Warp &warp, const Instruction &instruction, uint32_t mask) {
  run_packed<Lane, T, F>(warp, instruction, mask, std::make_index_sequence<sources>{});
}

}  // namespace fa::emu
