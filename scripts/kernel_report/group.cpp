// How many columns the engine takes together where blocks own keys: reads "bytes of the L2, slots, tiles of a column,
// batch, heads, key/value heads, rows, columns of a head, causal".
#include <cstdio>

#include "cuda/order.h"

int main() {
  long l2 = 0, slots = 0, tiles = 0, batch = 0, heads = 0, heads_kv = 0, rows = 0, dim = 0, causal = 0;
  if (std::scanf("%ld %ld %ld %ld %ld %ld %ld %ld %ld", &l2, &slots, &tiles, &batch, &heads, &heads_kv, &rows, &dim,
                 &causal) != 9)
    return 1;
  fa::Attention attention = {};
  attention.q_dtype = FA_F16;
  attention.head_dim = attention.head_dim_v = dim;
  attention.mask = causal ? FA_MASK_CAUSAL : FA_MASK_NONE;
  fa::Inputs inputs = {};
  inputs.attention = &attention;
  inputs.batch = batch, inputs.heads_q = heads, inputs.heads_kv = heads_kv;
  inputs.max_seqlen_q = inputs.max_seqlen_k = rows;
  fa::cuda::Device device = {};
  device.l2_bytes = static_cast<int>(l2);
  std::printf("%ld\n", static_cast<long>(fa::cuda::group_of_keys(inputs, device, slots, tiles, batch * heads_kv)));
}
