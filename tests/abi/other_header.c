/* A client built against an older (HEADER_SHORTENED) or a newer (HEADER_LENGTHENED) header than the library: it works, no byte
* beyond its structures is touched, and a field that the library cannot know is refused.
 * [F64] [F65] */
#include <fa.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "schema/ops.def"

#ifdef HEADER_SHORTENED
enum { desc_size = 80, args_size = 864, backward_size = 1504, merge_size = 296, append_size = 1328, kernel_size = 48 };
#else
enum { desc_size = 144, args_size = 1504, backward_size = 1584, merge_size = 320, append_size = 1560, kernel_size = 80 };
#endif
typedef char desc_was_edited[sizeof(fa_desc) == desc_size ? 1 : -1];
typedef char args_was_edited[sizeof(fa_forward_args) == args_size ? 1 : -1];
typedef char backward_was_edited[sizeof(fa_backward_args) == backward_size ? 1 : -1];
typedef char merge_was_edited[sizeof(fa_merge_args) == merge_size ? 1 : -1];
typedef char append_was_edited[sizeof(fa_append_args) == append_size ? 1 : -1];
typedef char kernel_was_edited[sizeof(fa_kernel) == kernel_size ? 1 : -1];

static int failures;

static void check(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "failed: %s (fa_last_error: %s)\n", what, fa_last_error());
  ++failures;
}

/* Memory of this size, full of 0xa5, that ends where a page begins that may be neither read nor written. */
static void *guarded(size_t size) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *pages = (char *)mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0) return NULL;
  memset(pages, 0xa5, page);
  return pages + page - size;
}

/* The bytes before the structure, which the initialiser must not have touched either. */
static int untouched_before(const void *structure) {
  const unsigned char *bytes = (const unsigned char *)structure;
  for (int i = 1; i <= 64; ++i) {
    if (bytes[-i] != 0xa5) return 0;
  }
  return 1;
}

/* A structure of each operation between guards. */
#define CHECK_STRUCTURE(name, Name, FIELDS)                                                                                 \
  static void check_##name##_args(void) {                                                                                   \
    fa_##name##_args *args = (fa_##name##_args *)guarded(sizeof *args);                                                     \
    fa_##name##_args_init(args, sizeof *args);                                                                              \
    check(args->struct_size == sizeof *args && untouched_before(args), "fa_" #name "_args_init");                           \
    CHECK_FUTURE(args, "fa_" #name "_args_init: fields unknown are zero");                                                  \
  }
#ifdef HEADER_LENGTHENED
#define CHECK_FUTURE(args, what) check(args->future[0] == 0 && args->future[2] == 0, what)
#else
#define CHECK_FUTURE(args, what)
#endif
FA_OPERATIONS(CHECK_STRUCTURE)

int main(void) {
  /* Two equal keys: the output is the mean of the two values. */
  float q[4] = {1, 2, 3, 4}, k[8] = {1, 1, 1, 1, 1, 1, 1, 1}, v[8] = {1, 2, 3, 4, 3, 4, 5, 6}, out[4] = {0, 0, 0, 0};
  fa_desc *desc = (fa_desc *)guarded(sizeof *desc);
  fa_forward_args *args = (fa_forward_args *)guarded(sizeof *args);
  float lse = 5.6931472f, dv[8] = {0, 0, 0, 0, 0, 0, 0, 0}, dout[4] = {2, 2, 2, 2};
  fa_backward_args *backward = (fa_backward_args *)guarded(sizeof *backward);
  fa_merge_args *merge = (fa_merge_args *)guarded(sizeof *merge);
  fa_tensor lses[2];
  fa_append_args *append = (fa_append_args *)guarded(sizeof *append);
  fa_kernel *kernel = (fa_kernel *)guarded(sizeof *kernel);
  fa_op *op = NULL;
  size_t workspace = 1;

#define CALL(name, Name, FIELDS) check_##name##_args();
  FA_OPERATIONS(CALL)

  fa_desc_init(desc, sizeof *desc);
  check(desc->struct_size == sizeof *desc && desc->window_left == -1 && untouched_before(desc), "fa_desc_init");
  desc->dtype_q = FA_F32;
  desc->head_dim = 4;
  check(fa_create(desc, &op) == FA_OK, "fa_create");

  fa_forward_args_init(args, sizeof *args);
  fa_tensor_init(&args->q, q, FA_F32, 1, 1, 1, 4);
  fa_tensor_init(&args->k, k, FA_F32, 1, 2, 1, 4);
  fa_tensor_init(&args->v, v, FA_F32, 1, 2, 1, 4);
  fa_tensor_init(&args->out, out, FA_F32, 1, 1, 1, 4);
  check(fa_forward_workspace_size(op, args, &workspace) == FA_OK, "fa_forward_workspace_size");
  check(fa_forward(op, args) == FA_OK, "fa_forward");
  for (int d = 0; d < 4; ++d) check(fabsf(out[d] - (float)(d + 2)) < 1e-5f, "out");

  fa_backward_args_init(backward, sizeof *backward);
  backward->q = args->q;
  backward->k = args->k;
  backward->v = args->v;
  backward->out = backward->dout = args->out;
  backward->dout.data = dout;
  fa_tensor_init(&backward->lse, &lse, FA_F32, 1, 1, 1, 1);
  fa_tensor_init(&backward->dv, dv, FA_F32, 1, 2, 1, 4);
  check(fa_backward(op, backward) == FA_OK, "fa_backward");
  for (int d = 0; d < 8; ++d) check(fabsf(dv[d] - 1) < 1e-5f, "dv");

  /* Two parts of equal weight, the same row both. */
  fa_merge_args_init(merge, sizeof *merge);
  lses[0] = lses[1] = backward->lse;
  {
    const fa_tensor outs[2] = {args->out, args->out};
    merge->outs = outs;
    merge->lses = lses;
    merge->num_parts = 2;
    fa_tensor_init(&merge->out, dout, FA_F32, 1, 1, 1, 4);
    check(fa_merge(op, merge) == FA_OK, "fa_merge");
  }
  for (int d = 0; d < 4; ++d) check(fabsf(dout[d] - (float)(d + 2)) < 1e-5f, "merged");
  /* A key and a value into the second row of two. */
  fa_append_args_init(append, sizeof *append);
  {
    const int32_t held = 1;
    fa_tensor_init(&append->k, q, FA_F32, 1, 1, 1, 4);
    fa_tensor_init(&append->v, q, FA_F32, 1, 1, 1, 4);
    fa_tensor_init(&append->k_cache, k, FA_F32, 1, 2, 1, 4);
    fa_tensor_init(&append->v_cache, v, FA_F32, 1, 2, 1, 4);
    append->cache_seqlens = &held;
    check(fa_append(op, append) == FA_OK, "fa_append");
  }
  for (int d = 0; d < 4; ++d) check(k[d] == 1 && k[4 + d] == q[d] && v[4 + d] == q[d], "appended");

  kernel->struct_size = sizeof *kernel;
  check(fa_kernel_info(0, kernel) == FA_OK, "fa_kernel_info");
  check(kernel->struct_size == sizeof *kernel && strlen(kernel->name) > 0 && untouched_before(kernel), "fa_kernel_info: fields");

#ifdef HEADER_LENGTHENED
  check(desc->future[0] == 0 && desc->future[2] == 0, "fa_desc_init: fields unknown are zero");
  args->future[2] = 1;
  check(fa_forward(op, args) == FA_ERROR_INVALID_ARGUMENT, "fa_forward: a field that the library does not know");
  check(fa_forward_workspace_size(op, args, &workspace) == FA_ERROR_INVALID_ARGUMENT, "fa_forward_workspace_size: the same");
  fa_destroy(op);
  desc->future[0] = 1;
  check(fa_create(desc, &op) == FA_ERROR_INVALID_ARGUMENT && op == NULL, "fa_create: the same");
  check(strstr(fa_last_error(), "struct_size") != NULL, "fa_create: the text names struct_size");
#endif
  fa_destroy(op);
  return failures != 0;
}
