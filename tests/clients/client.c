/* Causal attention of 4 query heads over 2 key/value heads, and its gradients, in C. Reads q, k, v and dout from files
 * of the current folder and writes out, lse, dq, dk and dv.
 *
 *   cc client.c $(pkg-config --cflags --libs fa) */
#include <fa.h>
#include <stdio.h>
#include <stdlib.h>

enum { batch = 2, queries = 5, keys = 9, heads = 4, kv_heads = 2, dim = 16 };
enum {
  q_size = batch * queries * heads * dim,
  k_size = batch * keys * kv_heads * dim,
  lse_size = batch * heads * queries
};

static float q[q_size], k[k_size], v[k_size], out[q_size], lse[lse_size];
static float dout[q_size], dq[q_size], dk[k_size], dv[k_size];

static void check(fa_status status) {
  if (status == FA_OK) return;
  fprintf(stderr, "%s: %s\n", fa_status_string(status), fa_last_error());
  exit(1);
}

static void read_floats(const char *name, float *x, size_t n) {
  FILE *file = fopen(name, "rb");
  if (file == NULL || fread(x, sizeof *x, n, file) != n || fclose(file) != 0) {
    perror(name);
    exit(1);
  }
}

static void write_floats(const char *name, const float *x, size_t n) {
  FILE *file = fopen(name, "wb");
  if (file == NULL || fwrite(x, sizeof *x, n, file) != n || fclose(file) != 0) {
    perror(name);
    exit(1);
  }
}

int main(void) {
  read_floats("q.f32", q, q_size);
  read_floats("k.f32", k, k_size);
  read_floats("v.f32", v, k_size);
  read_floats("dout.f32", dout, q_size);

  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = dim;
  desc.mask = FA_MASK_CAUSAL;
  fa_op *op;
  check(fa_create(&desc, &op));

  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q, FA_F32, batch, queries, heads, dim);
  fa_tensor_init(&args.k, k, FA_F32, batch, keys, kv_heads, dim);
  fa_tensor_init(&args.v, v, FA_F32, batch, keys, kv_heads, dim);
  fa_tensor_init(&args.out, out, FA_F32, batch, queries, heads, dim);
  fa_tensor_init(&args.lse, lse, FA_F32, batch, heads, queries, 1); /* the backward pass reads it */
  check(fa_forward(op, &args));

  fa_backward_args backward;
  fa_backward_args_init(&backward, sizeof backward);
  backward.q = args.q;
  backward.k = args.k;
  backward.v = args.v;
  backward.out = args.out;
  backward.lse = args.lse;
  fa_tensor_init(&backward.dout, dout, FA_F32, batch, queries, heads, dim);
  fa_tensor_init(&backward.dq, dq, FA_F32, batch, queries, heads, dim);
  fa_tensor_init(&backward.dk, dk, FA_F32, batch, keys, kv_heads, dim);
  fa_tensor_init(&backward.dv, dv, FA_F32, batch, keys, kv_heads, dim);
  check(fa_backward(op, &backward));
  fa_destroy(op);

  write_floats("out.f32", out, q_size);
  write_floats("lse.f32", lse, lse_size);
  write_floats("dq.f32", dq, q_size);
  write_floats("dk.f32", dk, k_size);
  write_floats("dv.f32", dv, k_size);
  return 0;
}
