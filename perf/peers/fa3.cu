// FlashAttention-3's forward kernel for bf16 and one mask, on tiles that are given rather than looked up in its table:
// FA_PEER_DIM, _ROWS, _KEYS, _CAUSAL, _CLUSTER.
#define tile_size_fwd_sm90 its_tile_size_fwd_sm90
#include "tile_size.h"
#undef tile_size_fwd_sm90

/// {rows, keys, whether the second product takes its left side from registers, whether the products of a warpgroup
/// overlap}
constexpr std::tuple<int, int, bool, bool> tile_size_fwd_sm90(int, int, bool, bool, int, bool, bool, bool) {
  return {FA_PEER_ROWS, FA_PEER_KEYS, FA_PEER_KEYS < 192, true};  // as its own: no registers are left for 192 keys
}

#include "flash_fwd_launch_template.h"

using Number = cutlass::bfloat16_t;
template void run_flash_fwd<90, FA_PEER_DIM, FA_PEER_DIM, FA_PEER_CLUSTER, Number, Number, FA_PEER_CAUSAL, false, false,
                            false, false, false, false, false, false, false>(Flash_fwd_params &, cudaStream_t);
