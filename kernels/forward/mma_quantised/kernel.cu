// Attention of f16 or bf16 queries over quantised keys and values on mma.sync, for one SM (FA_SM), element type of
// queries (FA_DTYPE) and head dimension (FA_DIM).
#include "common/build.cuh"
#include "forward/mma_quantised/forward.cuh"
#include "forward/mma_quantised/plain.cuh"

namespace fa::kernels::mma_quantised {

template <Entry E>
using BlockOf = Block<FA_SM, Dtype::FA_DTYPE, FA_DIM, E>;

#if FA_SM >= 80  // cp_async
using PlainBlockOf = PlainBlock<FA_SM, Dtype::FA_DTYPE, FA_DIM>;

extern "C" __global__ void __launch_bounds__(PlainBlockOf::threads, 1)
    fa_forward_plain(const __grid_constant__ QuantisedParams p) {
  forward_plain<PlainBlockOf>(p);
}
#endif

extern "C" __global__ void __launch_bounds__(BlockOf<Entry::split>::threads, 1)
    fa_forward_split(const __grid_constant__ QuantisedParams p) {
  forward<BlockOf<Entry::split>>(p);
}

extern "C" __global__ void __launch_bounds__(BlockOf<Entry::decode>::threads, 1)
    fa_forward_decode(const __grid_constant__ QuantisedParams p) {
  forward<BlockOf<Entry::decode>>(p);
}

}  // namespace fa::kernels::mma_quantised
