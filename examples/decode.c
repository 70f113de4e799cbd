/* Generating tokens with a key/value cache: two sequences of different lengths, 8 query heads over 2 key/value heads
 * (GQA), one query a step. The cache is allocated once for its capacity; seqused_k says how much of it each sequence
 * uses, and one workspace, sized for the capacity, is enough for every step without any allocation. Long caches are
 * split among the threads by themselves (num_splits = 0). Checked against the whole sequence in one causal call. */
#include <fa.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { batch = 2, capacity = 256, heads = 8, kv_heads = 2, dim = 64, q_row = heads * dim, kv_row = kv_heads * dim };

static const int lengths[batch] = {200, 90};
static float q[batch][capacity][q_row], k[batch][capacity][kv_row],
    v[batch][capacity][kv_row]; /* from a model, usually */
static float k_cache[batch][capacity][kv_row], v_cache[batch][capacity][kv_row];
static float step_q[batch][q_row], step_out[batch][q_row], decoded[batch][capacity][q_row],
    prefilled[batch][capacity][q_row];

static void fill(float *x, size_t n, unsigned seed) {
  for (size_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
  }
}

static void fail(void) {
  fprintf(stderr, "%s\n", fa_last_error());
  exit(1);
}

/* One token for every sequence that is not yet at its end. */
static void decode(const fa_op *op) {
  int32_t used[batch] = {0};
  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, step_q, FA_F32, batch, 1, heads, dim);
  fa_tensor_init(&args.k, k_cache, FA_F32, batch, capacity, kv_heads, dim);
  fa_tensor_init(&args.v, v_cache, FA_F32, batch, capacity, kv_heads, dim);
  fa_tensor_init(&args.out, step_out, FA_F32, batch, 1, heads, dim);
  args.seqused_k = used;

  if (fa_forward_workspace_size(op, &args, &args.workspace_size) != FA_OK) fail();
  args.workspace = aligned_alloc(256, (args.workspace_size + 256) / 256 * 256);
  if (args.workspace == NULL) exit(1);

  for (int t = 0; t < lengths[0]; ++t) {
    for (int b = 0; b < batch; ++b) {
      if (t >= lengths[b]) continue; /* a finished sequence keeps its cache; its output is not looked at */
      memcpy(k_cache[b][t], k[b][t], sizeof k[b][t]);
      memcpy(v_cache[b][t], v[b][t], sizeof v[b][t]);
      memcpy(step_q[b], q[b][t], sizeof q[b][t]);
      used[b] = t + 1;
    }
    if (fa_forward(op, &args) != FA_OK) fail();
    for (int b = 0; b < batch; ++b) {
      if (t < lengths[b]) memcpy(decoded[b][t], step_out[b], sizeof step_out[b]);
    }
  }
  free(args.workspace);
}

/* Every sequence whole: rows past a sequence's length are neither read nor written. */
static void prefill(const fa_op *op) {
  int32_t used[batch] = {lengths[0], lengths[1]};
  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q, FA_F32, batch, capacity, heads, dim);
  fa_tensor_init(&args.k, k, FA_F32, batch, capacity, kv_heads, dim);
  fa_tensor_init(&args.v, v, FA_F32, batch, capacity, kv_heads, dim);
  fa_tensor_init(&args.out, prefilled, FA_F32, batch, capacity, heads, dim);
  args.seqused_q = args.seqused_k = used;
  if (fa_forward(op, &args) != FA_OK) fail();
}

int main(void) {
  fill(&q[0][0][0], sizeof q / sizeof(float), 1);
  fill(&k[0][0][0], sizeof k / sizeof(float), 2);
  fill(&v[0][0][0], sizeof v / sizeof(float), 3);

  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = dim;
  desc.mask = FA_MASK_CAUSAL; /* bottom-right: the one query of a step sees the whole used cache */
  fa_op *op;
  if (fa_create(&desc, &op) != FA_OK) fail();
  decode(op);
  prefill(op);
  fa_destroy(op);

  float worst = 0;
  for (int b = 0; b < batch; ++b) {
    for (int t = 0; t < lengths[b]; ++t) {
      for (int i = 0; i < q_row; ++i) {
        float difference = fabsf(decoded[b][t][i] - prefilled[b][t][i]);
        if (difference > worst || difference != difference) worst = difference; /* a NaN stays */
      }
    }
  }
  printf("%d steps of decoding agree with prefill to %.1e\n", lengths[0], (double)worst);
  return !(worst < 1e-5f);
}
