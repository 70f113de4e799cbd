// FlashAttention-2's forward kernel for bf16, one mask and whole tiles: FA_PEER_DIM, _ROWS, _KEYS, _CAUSAL.
#include "namespace_config.h"
#include "flash.h"
#include "flash_fwd_kernel.h"

namespace peer = FLASH_NAMESPACE;

extern "C" __global__ void fa_peer(const __grid_constant__ peer::Flash_fwd_params params) {
  constexpr int warps = 4;
  constexpr bool dropout = false, local = false, alibi = false, whole_keys = true, whole_dim = true, softcap = false;
  using Traits = Flash_fwd_kernel_traits<FA_PEER_DIM, FA_PEER_ROWS, FA_PEER_KEYS, warps, false, false, cutlass::bfloat16_t>;
  peer::compute_attn<Traits, dropout, FA_PEER_CAUSAL, local, alibi, whole_keys, whole_dim, softcap, false>(params);
}
