/* Sequences of several lengths in one call: packed one after another ("varlen") and separated by cu_seqlens, so that
 * nothing is padded. Checked against one call for each sequence: the results are the same, bit for bit, with the
 * batch-invariant flag. */
#include <fa.h>
#include <stdio.h>
#include <string.h>

enum { sequences = 3, total = 120, heads = 4, dim = 32, row = heads * dim };

static const int32_t cu_seqlens[sequences + 1] = {0, 7, 50, total}; /* lengths 7, 43 and 70 */
static float q[total * row], k[total * row], v[total * row], packed[total * row], single[total * row];

static int failed(void) {
  fprintf(stderr, "%s\n", fa_last_error());
  return 1;
}

int main(void) {
  for (int i = 0; i < total * row; ++i) {
    q[i] = (float)(i * 37 % 101) / 50 - 1;
    k[i] = (float)(i * 53 % 103) / 50 - 1;
    v[i] = (float)(i * 71 % 107) / 50 - 1;
  }

  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = dim;
  desc.mask = FA_MASK_CAUSAL;
  desc.flags = FA_FLAG_BATCH_INVARIANT;
  fa_op *op;
  if (fa_create(&desc, &op) != FA_OK) return failed();

  /* All sequences in one call: tensors of batch 1. */
  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q, FA_F32, 1, total, heads, dim);
  fa_tensor_init(&args.k, k, FA_F32, 1, total, heads, dim);
  fa_tensor_init(&args.v, v, FA_F32, 1, total, heads, dim);
  fa_tensor_init(&args.out, packed, FA_F32, 1, total, heads, dim);
  args.num_seqs = sequences;
  args.cu_seqlens_q = args.cu_seqlens_k = cu_seqlens;
  if (fa_forward(op, &args) != FA_OK) return failed();

  /* One call for each. */
  for (int b = 0; b < sequences; ++b) {
    int first = cu_seqlens[b], length = cu_seqlens[b + 1] - first;
    fa_forward_args_init(&args, sizeof args);
    fa_tensor_init(&args.q, q + first * row, FA_F32, 1, length, heads, dim);
    fa_tensor_init(&args.k, k + first * row, FA_F32, 1, length, heads, dim);
    fa_tensor_init(&args.v, v + first * row, FA_F32, 1, length, heads, dim);
    fa_tensor_init(&args.out, single + first * row, FA_F32, 1, length, heads, dim);
    if (fa_forward(op, &args) != FA_OK) return failed();
  }
  fa_destroy(op);

  int same = memcmp(packed, single, sizeof packed) == 0;
  printf("%d packed sequences, %d tokens: %s\n", sequences, total,
         same ? "the bits of one call for each" : "DIFFERENT bits");
  return !same;
}
