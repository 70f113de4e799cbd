// Gradients of attention in f16 or bf16 on mma.sync, for one SM (FA_SM), element type (FA_DTYPE) and head dimension
// (FA_DIM).
#include "backward/keys.cuh"
#include "backward/queries.cuh"
#include "common/build.cuh"

namespace fa::kernels::backward {

template <Entry E>
using BlockOf = Block<FA_SM, Dtype::FA_DTYPE, FA_DIM, E>;

extern "C" __global__ void __launch_bounds__(BlockOf<Entry::dkv>::threads, BlockOf<Entry::dkv>::shape.blocks_an_sm)
    fa_backward_dkv(const __grid_constant__ BackwardParams p) {
  keys_pass<BlockOf<Entry::dkv>>(p);
}

extern "C" __global__ void __launch_bounds__(BlockOf<Entry::dq>::threads, BlockOf<Entry::dq>::shape.blocks_an_sm)
    fa_backward_dq(const __grid_constant__ BackwardParams p) {
  queries_pass<BlockOf<Entry::dq>>(p);
}

}  // namespace fa::kernels::backward
