// The state of a pipeline of stages in shared memory, for the producer and for the consumers.
#pragma once

#include <cstdint>

namespace fa::kernels {

/// The next stage of a pipeline, and the parity of its mbarrier's phase.
template <int Stages>
struct PipelineState {
  uint32_t stage = 0, parity = 0;

  __device__ void advance() {
    if (++stage == Stages) stage = 0, parity ^= 1;
  }
};

}  // namespace fa::kernels
