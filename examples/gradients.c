/* Gradients: queries, keys, values and sinks (a learned logit for each head) that are fitted, step by step, so that
 * causal attention gives a wanted result. Every step is a forward pass, which keeps lse, and a backward pass of its
 * inputs and results. The first step is checked: the loss falls by as much as the gradients say.
 *
 *   cc gradients.c $(pkg-config --cflags --libs fa)
 */
#include <fa.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  rows = 48,
  heads = 4,
  kv_heads = 2,
  dim = 16,
  q_size = rows * heads * dim,
  kv_size = rows * kv_heads * dim,
  steps = 200
};

static float q[q_size], k[kv_size], v[kv_size], sinks[heads];     /* fitted */
static float dq[q_size], dk[kv_size], dv[kv_size], dsinks[heads]; /* its gradients */
static float out[q_size], lse[heads * rows], dout[q_size], wanted[q_size];

static void fill(float *x, int n, unsigned seed) {
  for (int i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
  }
}

static void fail(void) {
  fprintf(stderr, "%s\n", fa_last_error());
  exit(1);
}

/* Half the sum of the squared differences, whose gradient is the difference. */
static double loss(const fa_op *op, const fa_forward_args *args) {
  double sum = 0;
  if (fa_forward(op, args) != FA_OK) fail();
  for (int i = 0; i < q_size; ++i) {
    dout[i] = out[i] - wanted[i];
    sum += 0.5 * (double)dout[i] * (double)dout[i];
  }
  return sum;
}

/* x -= rate * gradient; returns the square of the gradient's length. */
static double descend(float *x, const float *gradient, int n, float rate) {
  double square = 0;
  for (int i = 0; i < n; ++i) {
    x[i] -= rate * gradient[i];
    square += (double)gradient[i] * (double)gradient[i];
  }
  return square;
}

static double descend_all(float rate) {
  return descend(q, dq, q_size, rate) + descend(k, dk, kv_size, rate) + descend(v, dv, kv_size, rate) +
         descend(sinks, dsinks, heads, rate);
}

int main(void) {
  fill(q, q_size, 1);
  fill(k, kv_size, 2);
  fill(v, kv_size, 3);
  fill(wanted, q_size, 4);

  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = dim;
  desc.mask = FA_MASK_CAUSAL;
  fa_op *op; /* of both passes */
  if (fa_create(&desc, &op) != FA_OK) fail();

  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q, FA_F32, 1, rows, heads, dim);
  fa_tensor_init(&args.k, k, FA_F32, 1, rows, kv_heads, dim);
  fa_tensor_init(&args.v, v, FA_F32, 1, rows, kv_heads, dim);
  fa_tensor_init(&args.sinks, sinks, FA_F32, 1, heads, 1, 1);
  fa_tensor_init(&args.out, out, FA_F32, 1, rows, heads, dim);
  fa_tensor_init(&args.lse, lse, FA_F32, 1, heads, rows, 1); /* which the backward pass reads */

  fa_backward_args back;
  fa_backward_args_init(&back, sizeof back);
  back.q = args.q;
  back.k = args.k;
  back.v = args.v;
  back.sinks = args.sinks;
  back.out = args.out;
  back.lse = args.lse;
  fa_tensor_init(&back.dout, dout, FA_F32, 1, rows, heads, dim);
  fa_tensor_init(&back.dq, dq, FA_F32, 1, rows, heads, dim); /* gradients that are absent are not computed */
  fa_tensor_init(&back.dk, dk, FA_F32, 1, rows, kv_heads, dim);
  fa_tensor_init(&back.dv, dv, FA_F32, 1, rows, kv_heads, dim);
  fa_tensor_init(&back.dsinks, dsinks, FA_F32, 1, heads, 1, 1);

  const double first = loss(op, &args);
  double last = first, fallen = 0;
  for (int step = 0; step < steps; ++step) {
    if (fa_backward(op, &back) != FA_OK) fail();
    if (step == 0) { /* a short step to either side */
      const float short_step = 1e-3f;
      const double predicted = 2 * (double)short_step * descend_all(short_step);
      const double below = loss(op, &args);
      descend_all(-2 * short_step);
      fallen = (loss(op, &args) - below) / predicted;
      descend_all(short_step);
    }
    descend_all(0.1f);
    last = loss(op, &args);
  }
  printf(
      "%s: a short step changes the loss by %.4f of its gradients' prediction; it falls from %.1f to %.1f in %d steps\n",
      fa_op_kernel_name(op), fallen, first, last, steps);
  fa_destroy(op);
  return !(fallen > 0.999 && fallen < 1.001 && last < 0.5 * first);
}
