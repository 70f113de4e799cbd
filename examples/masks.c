/* The ways to say which keys a query attends, each drawn by the library itself: with q = 0 all attended keys weigh the
 * same, and with the identity for v, column j of out is the weight of key j.
 *
 *   cc masks.c $(pkg-config --cflags --libs fa) && ./a.out
 */
#include <fa.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { n = 8 };

static float q[n], k[n], v[n][n], out[n][n], bias[n][n], slopes[1] = {0.5f}, sinks[1] = {0.0f};
static uint8_t mask[n][n];

static void check(fa_status status) {
  if (status == FA_OK) return;
  fprintf(stderr, "%s\n", fa_last_error());
  exit(1);
}

static fa_desc plain(void) {
  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = 1;
  desc.head_dim_v = n;
  return desc;
}

static fa_forward_args tensors(void) {
  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q, FA_F32, 1, n, 1, 1);
  fa_tensor_init(&args.k, k, FA_F32, 1, n, 1, 1);
  fa_tensor_init(&args.v, v, FA_F32, 1, n, 1, n);
  fa_tensor_init(&args.out, out, FA_F32, 1, n, 1, n);
  return args;
}

/* Draws a call: the weight of each key in percent, a row for each query. wanted: how many pairs attend each other.
 */
static int draw(const char *title, fa_desc desc, fa_forward_args args, int wanted) {
  fa_op *op;
  check(fa_create(&desc, &op));
  check(fa_forward(op, &args));
  fa_destroy(op);
  int attended = 0;
  printf("%s\n", title);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      attended += out[i][j] > 0;
      printf(out[i][j] > 0 ? " %3.0f" : "   .", 100 * (double)out[i][j]);
    }
    printf("\n");
  }
  if (attended != wanted) printf("%d pairs, not %d\n", attended, wanted);
  return attended == wanted;
}

int main(void) {
  for (int i = 0; i < n; ++i) v[i][i] = 1;
  int good = 1;

  fa_desc desc = plain();
  desc.mask = FA_MASK_CAUSAL;
  good &= draw("causal", desc, tensors(), 36);

  desc.window_left = 2;
  good &= draw("causal, window_left = 2: the key of a query's own position and two before it", desc, tensors(), 21);

  desc = plain();
  desc.window_left = desc.window_right = 1;
  good &= draw("a window of one key to both sides", desc, tensors(), 22);

  desc = plain();
  desc.mask = FA_MASK_CAUSAL;
  desc.attention_chunk = 4;
  good &= draw("causal, attention_chunk = 4", desc, tensors(), 20);

  const int32_t used[1] = {5}, padding[1] = {3};
  fa_forward_args args = tensors();
  args.seqused_k = used;
  good &= draw("seqused_k = 5: keys of padding behind a sequence", plain(), args, 40);

  args = tensors();
  args.leftpad_k = padding;
  good &= draw("leftpad_k = 3: keys of padding before it", plain(), args, 40);

  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) mask[i][j] = j % 2 == i % 2, bias[i][j] = j == 0 ? -INFINITY : j == i ? 1.0f : 0.0f;
  args = tensors();
  fa_tensor_init(&args.mask, mask, FA_BOOL, 1, 1, n, n); /* (1, 1, ...): the same for all sequences and heads */
  good &= draw("a boolean mask", plain(), args, 32);

  args = tensors();
  fa_tensor_init(&args.bias, bias, FA_F32, 1, 1, n, n);
  good &= draw("a bias: -inf masks key 0, and a query's own key weighs e times as much", plain(), args, 56);

  desc = plain();
  desc.mask = FA_MASK_CAUSAL;
  args = tensors();
  fa_tensor_init(&args.alibi_slopes, slopes, FA_F32, 1, 1, 1, 1);
  good &= draw("causal with an ALiBi slope of 0.5: weight falls with the distance", desc, args, 36);

  args = tensors();
  fa_tensor_init(&args.sinks, sinks, FA_F32, 1, 1, 1, 1);
  good &= draw("causal with a sink of 0: it takes the weight of one key, so rows sum to less than 100", desc, args, 36);
  return !good;
}
