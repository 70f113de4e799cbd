// The memory layout of a tensor: its dimensions by the length of their steps.
#pragma once

#include <cstdint>
#include <utility>

namespace fa::api {

/// The dimensions that a tensor is stepped along, longest steps first. Their signs are dropped: offsets are those from
/// the lowest element, and a reversed dimension reaches the same.
struct Steps {
  struct Step {
    uint64_t length;
    uint64_t max_steps;  // along the dimension
    int dimension;

    uint64_t reach() const { return length * max_steps; }
  };

  Step of[4];
  int count = 0;

  /// The strides are such that they reach no further than 2^63 upwards and downwards.
  Steps(const int64_t (&shape)[4], const int64_t (&stride)[4]) {
    for (int i = 0; i < 4; ++i) {
      if (shape[i] < 2) continue;
      const auto length = static_cast<uint64_t>(stride[i]);
      of[count] = {stride[i] < 0 ? -length : length, static_cast<uint64_t>(shape[i] - 1), i};
      for (int j = count++; j > 0 && of[j - 1].length < of[j].length; --j) std::swap(of[j - 1], of[j]);
    }
  }
};

}  // namespace fa::api
