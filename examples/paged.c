/* A paged key/value cache, as inference servers keep it: pages of 16 tokens in one pool, and a block table that lists
 * the pages of each sequence. Two sequences share the pages of a common prompt; each then decodes tokens into its own
 * pages. Checked against the same tokens in a contiguous cache.
 *
 *   cc paged.c $(pkg-config --cflags --libs fa) -lm
 */
#include <fa.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  batch = 2,
  heads = 8,
  kv_heads = 2,
  dim = 64,
  page_size = 16,
  prompt = 3 * page_size, /* whole pages, so that both sequences can share them */
  steps = 40,
  max_pages = (prompt + steps + page_size - 1) / page_size, /* of a sequence */
  pool_pages = 16
};

typedef float token[kv_heads][dim]; /* the keys, or the values, of a token */

static token k_pool[pool_pages][page_size], v_pool[pool_pages][page_size];
static token k_flat[batch][max_pages * page_size], v_flat[batch][max_pages * page_size];
static int32_t block_table[batch][max_pages], used[batch];
static float q[batch][heads][dim], out[batch][heads][dim], expected[batch][heads][dim];
static int next_page;

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

/* Appends a token to a sequence, which takes a page of the pool whenever its last one is full. */
static void append(int b, unsigned seed) {
  const int at = used[b]++, page = at / page_size, row = at % page_size;
  if (row == 0) block_table[b][page] = next_page++;
  fill(k_flat[b][at][0], sizeof(token) / sizeof(float), seed);
  fill(v_flat[b][at][0], sizeof(token) / sizeof(float), seed + 1);
  memcpy(k_pool[block_table[b][page]][row], k_flat[b][at], sizeof(token));
  memcpy(v_pool[block_table[b][page]][row], v_flat[b][at], sizeof(token));
}

int main(void) {
  for (int t = 0; t < prompt; ++t) append(0, 2 * (unsigned)t);
  memcpy(block_table[1], block_table[0], sizeof block_table[0]); /* the same pages, not a copy of them */
  memcpy(k_flat[1], k_flat[0], sizeof k_flat[0]);
  memcpy(v_flat[1], v_flat[0], sizeof v_flat[0]);
  used[1] = used[0];

  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = dim;
  fa_op *op;
  check(fa_create(&desc, &op));

  fa_forward_args paged;
  fa_forward_args_init(&paged, sizeof paged);
  fa_tensor_init(&paged.q, q, FA_F32, batch, 1, heads, dim);
  fa_tensor_init(&paged.k, k_pool, FA_F32, pool_pages, page_size, kv_heads, dim);
  fa_tensor_init(&paged.v, v_pool, FA_F32, pool_pages, page_size, kv_heads, dim);
  fa_tensor_init(&paged.out, out, FA_F32, batch, 1, heads, dim);
  fa_tensor_init(&paged.block_table, block_table, FA_I32, batch, max_pages, 1, 1);
  paged.seqused_k = used; /* how many tokens of its pages each sequence uses */

  fa_forward_args flat = paged;
  fa_tensor_init(&flat.k, k_flat, FA_F32, batch, max_pages * page_size, kv_heads, dim);
  fa_tensor_init(&flat.v, v_flat, FA_F32, batch, max_pages * page_size, kv_heads, dim);
  fa_tensor_init(&flat.out, expected, FA_F32, batch, 1, heads, dim);
  memset(&flat.block_table, 0, sizeof flat.block_table);

  float worst = 0;
  for (int t = 0; t < steps; ++t) {
    for (int b = 0; b < batch; ++b) append(b, 1000u * (unsigned)(b + 1) + 2 * (unsigned)t);
    fill(&q[0][0][0], sizeof q / sizeof(float), 7u + (unsigned)t);
    check(fa_forward(op, &paged));
    check(fa_forward(op, &flat));
    for (int i = 0; i < batch * heads * dim; ++i) {
      worst = fmaxf(worst, fabsf((&out[0][0][0])[i] - (&expected[0][0][0])[i]));
      if (isnan((&out[0][0][0])[i])) return 1;
    }
  }
  fa_destroy(op);
  printf("%d tokens of %d sequences in %d pages; the contiguous cache agrees to %.1e\n", used[0] + used[1], batch,
         next_page, (double)worst);
  return !(worst < 1e-6f && next_page == 9);
}
