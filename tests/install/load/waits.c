/* waits COMMAND: an auto op that is created before its kernels' files are there computes calls with memory of the host, says which
 * file a call with the GPU's memory lacks, and computes that, too, once COMMAND has put them there. */
#include <dlfcn.h>
#include <fa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { rows = 5, heads = 2, dim = 16, elements = rows * heads * dim };

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, fa_last_error());
  return 1;
}

static void describe(fa_forward_args *args, float *q, float *k, float *v, float *out) {
  fa_forward_args_init(args, sizeof *args);
  fa_tensor_init(&args->q, q, FA_F32, 1, rows, heads, dim);
  fa_tensor_init(&args->k, k, FA_F32, 1, rows, heads, dim);
  fa_tensor_init(&args->v, v, FA_F32, 1, rows, heads, dim);
  fa_tensor_init(&args->out, out, FA_F32, 1, rows, heads, dim);
}

/* Memory of the first GPU, by the driver's own functions. */
static float *gpu_memory(size_t bytes) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) return NULL;
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
  int (*retain)(void **, int) = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
  int (*enter)(void *) = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
  int (*allocate)(unsigned long long *, size_t) = (int (*)(unsigned long long *, size_t))dlsym(driver, "cuMemAlloc_v2");
  void *context = NULL;
  unsigned long long address = 0;
  if (init(0) || retain(&context, 0) || enter(context) || allocate(&address, bytes)) return NULL;
  return (float *)(size_t)address;
}

int main(int argc, char **argv) {
  static float q[elements], k[elements], v[elements], out[elements];
  for (int i = 0; i < elements; ++i) v[i] = 1;
  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = dim;
  fa_op *op = NULL;
  if (fa_create(&desc, &op) != FA_OK) return failed("fa_create");

  fa_forward_args args;
  describe(&args, q, k, v, out);
  if (fa_forward(op, &args) != FA_OK) return failed("memory of the host");
  if (out[0] < 0.999f || out[0] > 1.001f) return printf("out is %g, expected 1\n", (double)out[0]), 1;

  float *there = gpu_memory(4 * sizeof q);
  if (!there) return puts("no memory of the GPU"), 1;
  describe(&args, there, there + elements, there + 2 * elements, there + 3 * elements);
  if (fa_forward(op, &args) != FA_ERROR_NO_DEVICE) return failed("without files: expected FA_ERROR_NO_DEVICE");
  if (!strstr(fa_last_error(), "cannot be opened: No such file")) return failed("without files");

  if (argc != 2 || system(argv[1]) != 0) return puts("the command failed"), 1;
  if (fa_forward(op, &args) != FA_OK) return failed("with files");
  fa_destroy(op);
  puts("waited");
  return 0;
}
