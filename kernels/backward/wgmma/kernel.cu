// Gradients of attention in bf16 on wgmma, for one SM (FA_SM), element type (FA_DTYPE) and head dimension (FA_DIM).
#include "backward/wgmma/consumer.cuh"
#include "backward/wgmma/producer.cuh"
#include "common/build.cuh"

namespace fa::kernels::backward_wgmma {

using FusedBlock = Block<Dtype::FA_DTYPE, FA_DIM>;

/// By one thread. Rows of keys that do not exist must weigh nothing in dq: their steps are masked ones.
template <class B>
__device__ inline void set_state(const BackwardParams &p, const Sequence &s, const KeyWork &w, State<B> *state) {
  const int end = min(w.first + B::rows, s.keys);
  state->sequence = s, state->work = w;
  state->group = p.heads_q / p.heads_kv;
  state->full = end < w.first + B::rows ? Interval{0, 0} : full_query_range(p, s, w.first, end);
  state->tiles = tiles_of<B>(attending(p, s, w.first, end));
  state->row = first_term(p, s, w.kv_head * state->group);
  state->before = w.first == 0 ? Interval{0, 0} : tiles_of<B>(attending(p, s, max(w.first - B::rows, 0), w.first));
}

extern "C" __global__ void __launch_bounds__(threads, 1)
    fa_backward_fused(const __grid_constant__ BackwardParams p, const __grid_constant__ TensorMaps maps) {
  using B = FusedBlock;
  extern __shared__ __align__(1024) char memory[];  // of SWIZZLE_128B's period
  const SharedMemory<B> shared(memory);
  const KeyWork w = key_work_in_turn(p, B::rows, &shared.state->ticket);
  if (w.entry < 0) return;
  const Sequence s = sequence(p, w.entry);
  if (w.first >= s.keys) return;
  if (threadIdx.x == 0) {
    set_state(p, s, w, shared.state);
    shared.make_barriers();
  }
  __syncthreads();
  // By a shuffle, so that the compiler knows that it is uniform in a warp.
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (warpgroup == 0) {
    setmaxnreg_dec<producer_registers>();
    if (shared.state->tiles.empty()) return;
    if (threadIdx.x == 0) load_tiles(p, maps, shared);
    if (threadIdx.x == 32) add_dq(p, shared);
  } else {
    setmaxnreg_inc<consumer_registers>();
    Consumer<B>(p, shared, warpgroup - 1).run();
  }
}

}  // namespace fa::kernels::backward_wgmma
