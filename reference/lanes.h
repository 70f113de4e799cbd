// Sums of neighbouring columns that stay in registers. Each is added up in plain order, as a loop would.
#pragma once

#include <cstdint>

namespace reference {

/// Numbers that are added at once, in a register of every 64-bit CPU.
template <class Real>
struct Lanes {
  typedef Real Vector __attribute__((vector_size(16)));
  typedef Real InMemory __attribute__((vector_size(16), aligned(alignof(Real)), may_alias));
  static constexpr int64_t count = 16 / sizeof(Real);

  static const InMemory &at(const Real *p) { return *reinterpret_cast<const InMemory *>(p); }
  static InMemory &at(Real *p) { return *reinterpret_cast<InMemory *>(p); }
};

}  // namespace reference
