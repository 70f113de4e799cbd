// The part of torch that FlashAttention-2's dropout needs; dropout is left out.
#pragma once
#include <cstdint>
#include <tuple>

namespace at {
struct PhiloxCudaState {};

namespace cuda::philox {
__host__ __device__ inline std::tuple<uint64_t, uint64_t> unpack(PhiloxCudaState) { return {}; }
}  // namespace cuda::philox
}  // namespace at
