// In place of torch's header: seed and offset of dropout, which the programs here leave out.
#pragma once

#include <ATen/cuda/PhiloxCudaState.h>

#include <tuple>

namespace at::cuda::philox {

__host__ __device__ inline std::tuple<uint64_t, uint64_t> unpack(PhiloxCudaState state) {
  return {state.seed, state.offset};
}

}  // namespace at::cuda::philox
