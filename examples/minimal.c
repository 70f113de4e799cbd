/* The example of the header: causal attention of 4 query heads over 2 key/value heads.
 *
 *   cc minimal.c $(pkg-config --cflags --libs fa)
 */
#include <fa.h>
#include <stdio.h>

static float q[1 * 128 * 4 * 64], k[1 * 128 * 2 * 64], v[1 * 128 * 2 * 64], out[1 * 128 * 4 * 64];

int main(void) {
  for (int i = 0; i < 128 * 4 * 64; ++i) q[i] = (float)(i % 7) / 7;
  for (int i = 0; i < 128 * 2 * 64; ++i) k[i] = (float)(i % 11) / 11, v[i] = (float)(i % 13) / 13;

  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = 64;
  desc.mask = FA_MASK_CAUSAL;

  fa_op *op;
  if (fa_create(&desc, &op) != FA_OK) {
    fprintf(stderr, "%s\n", fa_last_error());
    return 1;
  }

  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q, FA_F32, 1, 128, 4, 64); /* (batch, sequence, heads, head dimension) */
  fa_tensor_init(&args.k, k, FA_F32, 1, 128, 2, 64);
  fa_tensor_init(&args.v, v, FA_F32, 1, 128, 2, 64);
  fa_tensor_init(&args.out, out, FA_F32, 1, 128, 4, 64);
  if (fa_forward(op, &args) != FA_OK) {
    fprintf(stderr, "%s\n", fa_last_error());
    return 1;
  }

  printf(
      "computed by %s: the first query sees the first key only (%.4f is its value's %.4f), the last sees all 128 "
      "(%.4f)\n",
      fa_op_kernel_name(op), out[5], v[5], out[127 * 4 * 64 + 5]);
  fa_destroy(op);
  return 0;
}
