/* A plain C99 program as a user writes it: causal attention of 4 query heads over 2 key/value heads, checked against the
 * definition, and a look at every other function. Also the consumer that the install tests build. [F130] */
#include <fa.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { rows = 5, keys = 7, heads = 4, kv_heads = 2, dim = 8 };

static float q[rows * heads * dim], k[keys * kv_heads * dim], v[keys * kv_heads * dim], out[rows * heads * dim];
static float lse[heads * rows];
static int failures;

static void check(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "failed: %s (fa_last_error: %s)\n", what, fa_last_error());
  ++failures;
}

static void fill(float *x, int n, unsigned seed) {
  for (int i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
  }
}

/* The definition in the header, for one query of one head. */
static double expected(int i, int h, double *attention) {
  double score[keys], highest = -HUGE_VAL, sum = 0;
  int kv = h / (heads / kv_heads), last = i + keys - rows;
  for (int j = 0; j <= last; ++j) {
    score[j] = 0;
    for (int d = 0; d < dim; ++d) score[j] += (double)q[(i * heads + h) * dim + d] * k[(j * kv_heads + kv) * dim + d];
    score[j] /= sqrt((double)dim);
    if (score[j] > highest) highest = score[j];
  }
  for (int j = 0; j <= last; ++j) sum += exp(score[j] - highest);
  for (int d = 0; d < dim; ++d) {
    attention[d] = 0;
    for (int j = 0; j <= last; ++j) attention[d] += exp(score[j] - highest) / sum * v[(j * kv_heads + kv) * dim + d];
  }
  return highest + log(sum);
}

static int log_lines;
static void count_line(void *user, const char *text) {
  (void)text;
  ++*(int *)user;
}

int main(void) {
  fa_desc desc;
  fa_forward_args args;
  fa_op *op = NULL;
  size_t workspace = 0;

  fa_set_log(count_line, &log_lines);
  check(fa_version() / 100 == FA_VERSION_MAJOR * 100 + FA_VERSION_MINOR, "fa_version");
  check(strstr(fa_build_info(), FA_VERSION_STRING) != NULL, "fa_build_info");
  check(strcmp(fa_status_string(FA_OK), "FA_OK") == 0, "fa_status_string");
  check(strcmp(fa_last_error(), "") == 0, "fa_last_error before any error");
  check(fa_kernel_count() > 0, "fa_kernel_count");
  for (int i = 0; i < fa_kernel_count(); ++i) {
    fa_kernel kernel;
    kernel.struct_size = sizeof kernel;
    check(fa_kernel_info(i, &kernel) == FA_OK && strchr(kernel.name, '.') != NULL, "fa_kernel_info");
    check(kernel.available == (strlen(kernel.unavailable_reason) == 0), "fa_kernel_info: unavailable_reason");
  }

  fill(q, rows * heads * dim, 1);
  fill(k, keys * kv_heads * dim, 2);
  fill(v, keys * kv_heads * dim, 3);

  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = dim;
  desc.mask = FA_MASK_CAUSAL;
  check(fa_create(&desc, &op) == FA_OK, "fa_create");
  check(strlen(fa_op_kernel_name(op)) > 0, "fa_op_kernel_name");

  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q, FA_F32, 1, rows, heads, dim);
  fa_tensor_init(&args.k, k, FA_F32, 1, keys, kv_heads, dim);
  fa_tensor_init(&args.v, v, FA_F32, 1, keys, kv_heads, dim);
  fa_tensor_init(&args.out, out, FA_F32, 1, rows, heads, dim);
  fa_tensor_init(&args.lse, lse, FA_F32, 1, heads, rows, 1);
  check(fa_forward_workspace_size(op, &args, &workspace) == FA_OK, "fa_forward_workspace_size");
  check(fa_forward(op, &args) == FA_OK, "fa_forward");

  for (int i = 0; i < rows; ++i) {
    for (int h = 0; h < heads; ++h) {
      double attention[dim], log_sum = expected(i, h, attention);
      for (int d = 0; d < dim; ++d) check(fabs(out[(i * heads + h) * dim + d] - attention[d]) < 1e-5, "out");
      check(fabs(lse[h * rows + i] - log_sum) < 1e-5, "lse");
    }
  }

  args.q.shape[3] = dim + 1;
  check(fa_forward(op, &args) == FA_ERROR_INVALID_ARGUMENT && strlen(fa_last_error()) > 0, "an error, and its text");
  fa_destroy(op);
  fa_destroy(NULL);
  fa_set_log(NULL, NULL);
  fa_shutdown();
  if (failures == 0) printf("%s: ok\n", fa_build_info());
  return failures != 0;
}
