// Whether a Hadamard matrix rotates keys or values.
#pragma once

#include "core/call.h"

namespace fa {

inline bool rotates(const Attention &a) {
  return a.hadamard_k > 1 || a.hadamard_v > 1;
}

}  // namespace fa
