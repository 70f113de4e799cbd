// Attention of wide heads in f16 or bf16 on mma.sync, for one SM (FA_SM), element type (FA_DTYPE) and head dimension
// (FA_DIM).
#include "common/build.cuh"
#include "forward/mma_wide/forward.cuh"

namespace fa::kernels::mma_wide {

template <Entry E>
using BlockOf = Block<FA_SM, Dtype::FA_DTYPE, FA_DIM, E>;

extern "C" __global__ void __launch_bounds__(BlockOf<Entry::split>::threads,
                                             BlockOf<Entry::split>::shape.min_blocks_per_sm)
    fa_forward_split(const __grid_constant__ Params p) {
  forward<BlockOf<Entry::split>>(p);
}

extern "C" __global__ void __launch_bounds__(BlockOf<Entry::decode>::threads,
                                             BlockOf<Entry::decode>::shape.min_blocks_per_sm)
    fa_forward_decode(const __grid_constant__ Params p) {
  forward<BlockOf<Entry::decode>>(p);
}

}  // namespace fa::kernels::mma_wide
