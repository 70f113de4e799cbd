/* A prefix that conversations share (a system prompt, a document): its keys and values are read once for a token of all
 * conversations, as 16 queries of one sequence, and merged with the result over each conversation's own keys. Checked
 * against one call that has all keys of each conversation, wherever the prefix is cut, and for any number and order of
 * conversations.
 *
 *   cc shared_prefix.c $(pkg-config --cflags --libs fa) -lm
 */
#include <fa.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { conversations = 16, heads = 8, kv_heads = 2, dim = 64, prefix = 512, own = 48, keys = prefix + own };

/* Each conversation's cache begins with the prefix, so that it can be cut anywhere; its own keys follow. */
static float q[conversations][heads][dim], k[conversations][keys][kv_heads][dim], v[conversations][keys][kv_heads][dim];
static int32_t lengths[conversations]; /* with the prefix */

/* A token's results: out (conversation, head, dim), lse (head, conversation) of the prefix, (conversation, head) of own
 * keys. */
static float whole[conversations][heads][dim], merged[conversations][heads][dim], some[conversations][heads][dim];
static float of_prefix[conversations][heads][dim], of_own[conversations][heads][dim];
static float prefix_lse[heads][conversations], own_lse[conversations][heads];

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

/* One token of conversations first .. first + n - 1: over the first `cut` keys, which they share, and over their own
 * keys behind them; merged into out. */
static void token(const fa_op *op, int first, int n, int cut, float (*out)[heads][dim]) {
  const int32_t left_out[conversations] = {cut, cut, cut, cut, cut, cut, cut, cut,
                                           cut, cut, cut, cut, cut, cut, cut, cut};
  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q[first], FA_F32, 1, n, heads,
                 dim); /* n queries of one sequence: nothing masks keys from any */
  fa_tensor_init(&args.k, k[0], FA_F32, 1, cut, kv_heads, dim);
  fa_tensor_init(&args.v, v[0], FA_F32, 1, cut, kv_heads, dim);
  fa_tensor_init(&args.out, of_prefix, FA_F32, 1, n, heads, dim);
  fa_tensor_init(&args.lse, prefix_lse, FA_F32, 1, heads, n, 1);
  check(fa_forward(op, &args));

  fa_tensor_init(&args.q, q[first], FA_F32, n, 1, heads, dim); /* a query of each of n sequences */
  fa_tensor_init(&args.k, k[first], FA_F32, n, keys, kv_heads, dim);
  fa_tensor_init(&args.v, v[first], FA_F32, n, keys, kv_heads, dim);
  fa_tensor_init(&args.out, of_own, FA_F32, n, 1, heads, dim);
  fa_tensor_init(&args.lse, own_lse, FA_F32, n, heads, 1, 1);
  args.seqused_k = lengths + first;
  args.leftpad_k = left_out;
  check(fa_forward(op, &args));

  /* The tensor (1, n, heads, dim) is as well (n, 1, heads, dim); the lse of the prefix has its conversations behind its
   * heads. */
  fa_tensor outs[2], lses[2];
  fa_tensor_init(&outs[0], of_prefix, FA_F32, n, 1, heads, dim);
  fa_tensor_init(&outs[1], of_own, FA_F32, n, 1, heads, dim);
  fa_tensor_init(&lses[0], prefix_lse, FA_F32, n, heads, 1, 1);
  lses[0].stride[0] = 1, lses[0].stride[1] = n;
  fa_tensor_init(&lses[1], own_lse, FA_F32, n, heads, 1, 1);
  fa_merge_args merge;
  fa_merge_args_init(&merge, sizeof merge);
  merge.outs = outs, merge.lses = lses, merge.num_parts = 2;
  fa_tensor_init(&merge.out, out, FA_F32, n, 1, heads, dim);
  check(fa_merge(op, &merge));
}

/* The same by one call, which reads the prefix once for each conversation. */
static void token_of_whole(const fa_op *op) {
  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q, FA_F32, conversations, 1, heads, dim);
  fa_tensor_init(&args.k, k, FA_F32, conversations, keys, kv_heads, dim);
  fa_tensor_init(&args.v, v, FA_F32, conversations, keys, kv_heads, dim);
  fa_tensor_init(&args.out, whole, FA_F32, conversations, 1, heads, dim);
  args.seqused_k = lengths;
  check(fa_forward(op, &args));
}

static float difference(const float *a, const float *b, int n) {
  float most = 0;
  for (int i = 0; i < n; ++i) most = fabsf(a[i] - b[i]) <= most ? most : fabsf(a[i] - b[i]); /* a NaN stays */
  return most;
}

int main(void) {
  fill(q[0][0], sizeof q / sizeof(float), 1);
  fill(k[0][0][0], sizeof k / sizeof(float), 2);
  fill(v[0][0][0], sizeof v / sizeof(float), 3);
  long long own_keys = 0;
  for (int i = 0; i < conversations; ++i) {
    memcpy(k[i], k[0], prefix * sizeof k[0][0]);
    memcpy(v[i], v[0], prefix * sizeof v[0][0]);
    lengths[i] = prefix + 1 + i * 3;
    own_keys += lengths[i] - prefix;
  }

  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = dim;
  desc.flags = FA_FLAG_BATCH_INVARIANT; /* a conversation's bits do not depend on the others */
  fa_op *op;
  check(fa_create(&desc, &op));

  /* Wherever the prefix is cut. The bound is that of docs/precision.md for values up to 1, about. */
  token_of_whole(op);
  const int cuts[] = {0, 1, 17, 255, 256, 511, prefix};
  float worst = 0;
  for (size_t c = 0; c < sizeof cuts / sizeof *cuts; ++c) {
    token(op, 0, conversations, cuts[c], merged);
    const float error = difference(merged[0][0], whole[0][0], conversations * heads * dim);
    worst = error <= worst ? worst : error;
  }

  /* For any number of conversations, and in any order: here some of them, from the last ones on. */
  int same = 1;
  const int groups[] = {1, 3, 5, 16};
  for (size_t g = 0; g < sizeof groups / sizeof *groups; ++g) {
    for (int end = conversations; end > 0; end -= groups[g]) {
      const int first = end > groups[g] ? end - groups[g] : 0;
      token(op, first, end - first, prefix, some);
      same = same && memcmp(some, merged[first], (size_t)(end - first) * sizeof *some) == 0;
    }
  }
  fa_destroy(op);

  const long long key = 2 * kv_heads * dim * (long long)sizeof(float); /* and its value */
  const long long parts = (2 + 1) * (long long)sizeof whole + 2 * (long long)sizeof own_lse;
  printf("a token of %d conversations reads %lld bytes of keys and values, and %lld to merge, instead of %lld\n",
         conversations, (prefix + own_keys) * key, parts, (conversations * (long long)prefix + own_keys) * key);
  printf("differs from one call by %.1e at most, wherever the prefix is cut; %s for any number of conversations\n",
         (double)worst, same ? "bitwise the same" : "NOT the same");
  return !(worst < 1e-6f && same);
}
