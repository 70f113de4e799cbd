// Gradients of attention in f16 or bf16 on mma.sync, for one SM (FA_SM), element type (FA_DTYPE) and head dimension
// (FA_DIM).
#include "backward/mma/keys.cuh"
#include "backward/mma/queries.cuh"
#include "common/build.cuh"

namespace fa::kernels::backward_mma {

template <Entry E>
using BlockOf = Block<FA_SM, Dtype::FA_DTYPE, FA_DIM, E>;

extern "C" __global__ void __launch_bounds__(BlockOf<Entry::dkv>::threads, BlockOf<Entry::dkv>::shape.min_blocks_per_sm)
    fa_backward_dkv(const __grid_constant__ BackwardParams p) {
  keys_pass<BlockOf<Entry::dkv>>(p);
}

constexpr int warps_of_gradients = shape(arch_of(FA_SM), FA_DIM, Entry::bwd_fused).warps;
extern "C" __global__ void __launch_bounds__(32 * warps_of_gradients + (warps_of_gradients == 0), 1)
    fa_backward_fused(const __grid_constant__ BackwardParams p) {
  if constexpr (warps_of_gradients > 0) keys_pass<BlockOf<Entry::bwd_fused>>(p);
}

extern "C" __global__ void __launch_bounds__(BlockOf<Entry::dq>::threads, BlockOf<Entry::dq>::shape.min_blocks_per_sm)
    fa_backward_dq(const __grid_constant__ BackwardParams p) {
  queries_pass<BlockOf<Entry::dq>>(p);
}

}  // namespace fa::kernels::backward_mma
