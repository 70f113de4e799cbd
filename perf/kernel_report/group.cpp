// How many columns the engine takes together where blocks own keys: reads "bytes of the L2, bytes of memory a clock and
// multiprocessor, slots, keys of a tile, batch, heads, key/value heads, rows, columns of a head, causal".
#include <cstdio>

#include "cuda/order.h"

int main() {
  long l2 = 0, slots = 0, keys = 0, batch = 0, heads = 0, heads_kv = 0, rows = 0, dim = 0, causal = 0;
  double rate = 0;
  if (std::scanf("%ld %lf %ld %ld %ld %ld %ld %ld %ld %ld", &l2, &rate, &slots, &keys, &batch, &heads, &heads_kv, &rows,
                 &dim, &causal) != 10)
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
  device.memory_rate = rate;
  fa::kernels::TileConfig tile = {};
  tile.keys = static_cast<int>(keys);
  std::printf("%ld\n", static_cast<long>(fa::cuda::key_l2_section(inputs, device, tile, slots, batch * heads_kv)));
}
