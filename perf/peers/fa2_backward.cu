// FlashAttention-2's backward kernel for bf16, one mask and whole tiles: FA_PEER_DIM, _ROWS (of queries, a step), _KEYS
// (that a block owns), _CAUSAL, and of its traits _WARPS_S, _WARPS_KV, _WARPS_Q (the layout of eight warps in each product)
// and _V_IN_REGISTERS.
#include "namespace_config.h"

#include "flash.h"
#include "flash_bwd_preprocess_kernel.h"  // without which the next does not compile

#include "flash_bwd_kernel.h"

namespace peer = FLASH_NAMESPACE;

extern "C" __global__ void fa_peer(const __grid_constant__ peer::Flash_bwd_params params) {
  constexpr int warps = 8;
  constexpr bool dropout = false, local = false, alibi = false, whole_rows = true, whole_dim = true, softcap = false;
  using Traits =
      Flash_bwd_kernel_traits<FA_PEER_DIM, FA_PEER_ROWS, FA_PEER_KEYS, warps, FA_PEER_WARPS_S, FA_PEER_WARPS_KV,
                              FA_PEER_WARPS_Q, FA_PEER_V_IN_REGISTERS, false, cutlass::bfloat16_t>;
  peer::compute_dq_dk_dv_seqk_parallel<Traits, dropout, FA_PEER_CAUSAL, local, alibi, whole_rows, whole_dim, softcap>(
      params);
}
