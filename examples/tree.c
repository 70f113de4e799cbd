/* Speculative decoding: a draft model proposes a tree of tokens, and one call verifies all of them. Their keys and
 * values are in the cache behind those of the prefix, one after another, so that a token's neighbours there belong to
 * other branches: tree_mask says which of them it attends, and tree_depth where it is in its sentence. Checked against
 * each branch as if it had been decoded alone, one token after another.
 *
 *   cc tree.c $(pkg-config --cflags --libs fa) -lm
 */
#include <fa.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { heads = 8, kv_heads = 2, dim = 64, prefix = 200, tokens = 40, words = (tokens + 31) / 32 };

typedef float token[kv_heads][dim]; /* the keys, or the values, of a token */

static token k_cache[prefix + tokens], v_cache[prefix + tokens];
static token k_path[prefix + tokens], v_path[prefix + tokens]; /* of one branch */
static float q[tokens][heads][dim], out[tokens][heads][dim], expected[heads][dim];
static int32_t parent[tokens], depth[tokens], mask[tokens][words]; /* bit j % 32 of word j / 32: new token j */
static float slopes[heads];

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

/* Every token has one of those before it as its parent, but for two roots, which follow the prefix. It attends itself
 * and all that its parent attends. */
static void grow_tree(void) {
  for (int i = 0; i < tokens; ++i) {
    parent[i] = i < 2 ? -1 : (int32_t)((unsigned)i * 2654435761u >> 8) % i;
    depth[i] = parent[i] < 0 ? 0 : depth[parent[i]] + 1;
    if (parent[i] >= 0) memcpy(mask[i], mask[parent[i]], sizeof mask[i]);
    mask[i][i / 32] = (int32_t)((uint32_t)mask[i][i / 32] | 1u << i % 32);
  }
}

/* The output of a token as its branch's decoding has it: the last query of the tokens from the root to it. */
static void decode_branch(const fa_op *op, int last) {
  const int length = depth[last] + 1;
  for (int i = last; i >= 0; i = parent[i]) {
    memcpy(k_path[prefix + depth[i]], k_cache[prefix + i], sizeof(token));
    memcpy(v_path[prefix + depth[i]], v_cache[prefix + i], sizeof(token));
  }
  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q[last], FA_F32, 1, 1, heads, dim);
  fa_tensor_init(&args.k, k_path, FA_F32, 1, prefix + length, kv_heads, dim);
  fa_tensor_init(&args.v, v_path, FA_F32, 1, prefix + length, kv_heads, dim);
  fa_tensor_init(&args.out, expected, FA_F32, 1, 1, heads, dim);
  fa_tensor_init(&args.alibi_slopes, slopes, FA_F32, 1, heads, 1, 1);
  check(fa_forward(op, &args));
}

int main(void) {
  fill(k_cache[0][0], sizeof k_cache / sizeof(float), 1);
  fill(v_cache[0][0], sizeof v_cache / sizeof(float), 2);
  fill(q[0][0], sizeof q / sizeof(float), 3);
  memcpy(k_path, k_cache, sizeof k_path);
  memcpy(v_path, v_cache, sizeof v_path);
  for (int h = 0; h < heads; ++h) slopes[h] = ldexpf(1, -h - 1);
  grow_tree();

  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = dim;
  desc.mask = FA_MASK_CAUSAL; /* whose rule the tree replaces among its own tokens */
  fa_op *op;
  check(fa_create(&desc, &op));

  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q, FA_F32, 1, tokens, heads, dim);
  fa_tensor_init(&args.k, k_cache, FA_F32, 1, prefix + tokens, kv_heads, dim);
  fa_tensor_init(&args.v, v_cache, FA_F32, 1, prefix + tokens, kv_heads, dim);
  fa_tensor_init(&args.out, out, FA_F32, 1, tokens, heads, dim);
  fa_tensor_init(&args.alibi_slopes, slopes, FA_F32, 1, heads, 1, 1);
  fa_tensor_init(&args.tree_mask, mask, FA_I32, 1, 1, tokens, words);
  fa_tensor_init(&args.tree_depth, depth, FA_I32, 1, tokens, 1, 1);
  check(fa_forward(op, &args));

  float worst = 0;
  int deepest = 0;
  for (int i = 0; i < tokens; ++i) {
    decode_branch(op, i);
    for (int j = 0; j < heads * dim; ++j) {
      if (isnan((&out[i][0][0])[j])) return 1;
      worst = fmaxf(worst, fabsf((&out[i][0][0])[j] - (&expected[0][0])[j]));
    }
    if (depth[i] > deepest) deepest = depth[i];
  }
  fa_destroy(op);
  printf("%d draft tokens, the deepest one %d below its root, verified in one call; decoded branches agree to %.1e\n",
         tokens, deepest, (double)worst);
  return !(worst < 1e-6f);
}
