/* Ring attention: a sequence that is too long for one machine is dealt out to ranks, each of which holds a part of the
 * queries, keys and values. Keys and values travel around the ring, and every rank merges the partial results of its
 * queries (fa_merge). In the backward pass the gradients of keys and values travel with them. Here the ranks are a loop
 * and the ring is an index; a program on several machines receives them from its neighbour. Checked against one call of
 * the whole sequence.
 *
 *   cc ring.c $(pkg-config --cflags --libs fa) -lm
 */
#include <fa.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  ranks = 4,
  rows = 40,
  heads = 4,
  kv_heads = 2,
  dim = 32,
  seq = ranks * rows,
  q_row = heads * dim,
  kv_row = kv_heads * dim
};

typedef struct results {
  float out[seq][heads][dim], lse[ranks][heads][rows];
  float dq[seq][heads][dim], dk[seq][kv_heads][dim], dv[seq][kv_heads][dim];
} results;

static float q[seq][heads][dim], k[seq][kv_heads][dim], v[seq][kv_heads][dim], dout[seq][heads][dim];
static float part[rows][heads][dim], part_lse[heads][rows], whole_lse[heads][seq];
static results whole, ring;

static void fill(float *x, size_t n, unsigned seed) {
  for (size_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
  }
}

static void check(fa_status status) {
  if (status == FA_OK) return;
  fprintf(stderr, "%s\n", fa_last_error());
  exit(1);
}

/* n queries from row q_at on, and n keys from row k_at on. */
static void forward(const fa_op *op, int n, int q_at, int k_at, float *out, float *lse) {
  const int32_t offset =
      q_at - k_at; /* the position of the first query relative to the first key, negative for later keys */
  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q[q_at], FA_F32, 1, n, heads, dim);
  fa_tensor_init(&args.k, k[k_at], FA_F32, 1, n, kv_heads, dim);
  fa_tensor_init(&args.v, v[k_at], FA_F32, 1, n, kv_heads, dim);
  fa_tensor_init(&args.out, out, FA_F32, 1, n, heads, dim);
  fa_tensor_init(&args.lse, lse, FA_F32, 1, heads, n, 1);
  args.q_offset = &offset;
  check(fa_forward(op, &args));
}

/* The part that these keys have in the gradients: out and lse are those of all keys. */
static void backward(const fa_op *op, int n, int q_at, int k_at, float *lse, results *r) {
  const int32_t offset = q_at - k_at;
  fa_backward_args args;
  fa_backward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q[q_at], FA_F32, 1, n, heads, dim);
  fa_tensor_init(&args.k, k[k_at], FA_F32, 1, n, kv_heads, dim);
  fa_tensor_init(&args.v, v[k_at], FA_F32, 1, n, kv_heads, dim);
  fa_tensor_init(&args.out, r->out[q_at], FA_F32, 1, n, heads, dim);
  fa_tensor_init(&args.lse, lse, FA_F32, 1, heads, n, 1);
  fa_tensor_init(&args.dout, dout[q_at], FA_F32, 1, n, heads, dim);
  fa_tensor_init(&args.dq, r->dq[q_at], FA_F32, 1, n, heads, dim);
  fa_tensor_init(&args.dk, r->dk[k_at], FA_F32, 1, n, kv_heads, dim);
  fa_tensor_init(&args.dv, r->dv[k_at], FA_F32, 1, n, kv_heads, dim);
  args.accumulate =
      FA_ACCUMULATE_DQ | FA_ACCUMULATE_DK | FA_ACCUMULATE_DV; /* to the sums of earlier steps of the ring */
  args.q_offset = &offset;
  check(fa_backward(op, &args));
}

/* Merges a partial result into out and lse of a rank's queries, which are 0 and -inf at first. */
static void merge(const fa_op *op, int rank) {
  fa_tensor outs[2], lses[2];
  fa_tensor_init(&outs[0], ring.out[rank * rows], FA_F32, 1, rows, heads, dim);
  fa_tensor_init(&outs[1], part, FA_F32, 1, rows, heads, dim);
  fa_tensor_init(&lses[0], ring.lse[rank], FA_F32, 1, heads, rows, 1);
  fa_tensor_init(&lses[1], part_lse, FA_F32, 1, heads, rows, 1);
  fa_merge_args args;
  fa_merge_args_init(&args, sizeof args);
  args.outs = outs, args.lses = lses, args.num_parts = 2;
  args.out = outs[0], args.lse = lses[0]; /* in place */
  check(fa_merge(op, &args));
}

static float difference(const float *a, const float *b, int n) {
  float worst = 0;
  for (int i = 0; i < n; ++i) worst = fabsf(a[i] - b[i]) <= worst ? worst : fabsf(a[i] - b[i]); /* a NaN stays */
  return worst;
}

int main(void) {
  fill(q[0][0], seq * q_row, 1);
  fill(k[0][0], seq * kv_row, 2);
  fill(v[0][0], seq * kv_row, 3);
  fill(dout[0][0], seq * q_row, 4);
  for (int rank = 0; rank < ranks; ++rank)
    for (int i = 0; i < heads * rows; ++i) ring.lse[rank][i / rows][i % rows] = -INFINITY;

  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = dim;
  desc.mask = FA_MASK_CAUSAL;
  fa_op *op;
  check(fa_create(&desc, &op));

  for (int step = 0; step < ranks; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      const int owner = (rank + ranks - step) % ranks; /* whose keys and values this rank holds now */
      forward(op, rows, rank * rows, owner * rows, part[0][0], part_lse[0]);
      merge(op, rank);
    }
  }
  for (int step = 0; step < ranks; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      const int owner = (rank + ranks - step) % ranks;
      backward(op, rows, rank * rows, owner * rows, ring.lse[rank][0], &ring);
    }
  }

  forward(op, seq, 0, 0, whole.out[0][0], whole_lse[0]);
  backward(op, seq, 0, 0, whole_lse[0], &whole);
  fa_destroy(op);

  const float out = difference(ring.out[0][0], whole.out[0][0], seq * q_row),
              dq = difference(ring.dq[0][0], whole.dq[0][0], seq * q_row);
  const float dk = difference(ring.dk[0][0], whole.dk[0][0], seq * kv_row),
              dv = difference(ring.dv[0][0], whole.dv[0][0], seq * kv_row);
  printf("%d ranks and one call differ by %.1e in out, %.1e in dq, %.1e in dk, %.1e in dv\n", ranks, (double)out,
         (double)dq, (double)dk, (double)dv);
  return !(out < 2e-6f && dq < 2e-5f && dk < 2e-5f && dv < 2e-5f);
}
