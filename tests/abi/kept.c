/* The process's memory that the library keeps: nothing once it is unloaded, however often it is loaded, and nothing
* of calls that it has refused. kept LIBRARY */
#include <dlfcn.h>
#include <fa.h>
#include <limits.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static size_t allocated(void) {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

/* The functions of one loaded library. */
struct library {
  void *handle;
  void (*desc_init)(fa_desc *, size_t);
  void (*args_init)(fa_forward_args *, size_t);
  void (*tensor_init)(fa_tensor *, void *, fa_dtype, int64_t, int64_t, int64_t, int64_t);
  fa_status (*create)(const fa_desc *, fa_op **);
  fa_status (*forward)(const fa_op *, const fa_forward_args *);
  void (*destroy)(fa_op *);
  const char *(*last_error)(void);
  const char *(*build_info)(void);
  int32_t (*kernel_count)(void);
  fa_status (*kernel_info)(int32_t, fa_kernel *);
};

static int load(struct library *lib, const char *path) {
  const struct {
    const char *name;
    void *to;
  } functions[] = {{"fa_desc_init", &lib->desc_init},       {"fa_forward_args_init", &lib->args_init},
                   {"fa_tensor_init", &lib->tensor_init},   {"fa_create", &lib->create},
                   {"fa_forward", &lib->forward},           {"fa_destroy", &lib->destroy},
                   {"fa_last_error", &lib->last_error},     {"fa_build_info", &lib->build_info},
                   {"fa_kernel_count", &lib->kernel_count}, {"fa_kernel_info", &lib->kernel_info}};
  lib->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!lib->handle) return printf("%s\n", dlerror()), 0;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    void *const found = dlsym(lib->handle, functions[i].name);
    if (!found) return printf("%s\n", dlerror()), 0;
    memcpy(functions[i].to, &found, sizeof found);
  }
  return 1;
}

/* One op of the CPU on two threads, and one of whatever there is. */
static int compute(const struct library *lib) {
  static float q[64 * 4 * 64], k[2048 * 2 * 64], v[2048 * 2 * 64], out[64 * 4 * 64];
  for (fa_device device = FA_DEVICE_AUTO; device <= FA_DEVICE_CPU; device++) {
    fa_desc desc;
    lib->desc_init(&desc, sizeof desc);
    desc.device = device;
    desc.dtype_q = FA_F32;
    desc.head_dim = 64;
    desc.num_threads = 2;
    fa_op *op = NULL;
    if (lib->create(&desc, &op) != FA_OK) return printf("fa_create: %s\n", lib->last_error()), 0;
    fa_forward_args args;
    lib->args_init(&args, sizeof args);
    lib->tensor_init(&args.q, q, FA_F32, 1, 64, 4, 64);
    lib->tensor_init(&args.k, k, FA_F32, 1, 2048, 2, 64);
    lib->tensor_init(&args.v, v, FA_F32, 1, 2048, 2, 64);
    lib->tensor_init(&args.out, out, FA_F32, 1, 64, 4, 64);
    if (device == FA_DEVICE_CPU && lib->forward(op, &args) != FA_OK)
      return printf("fa_forward: %s\n", lib->last_error()), 0;
    lib->destroy(op);
  }
  return 1;
}

/* Asks for everything that the library says of itself. */
static int ask(const struct library *lib) {
  for (int32_t i = 0; i < lib->kernel_count(); i++) {
    fa_kernel info = {0};
    info.struct_size = sizeof info;
    if (lib->kernel_info(i, &info) != FA_OK || !strstr(lib->build_info(), info.name))
      return printf("kernel %d: %s\n", (int)i, lib->last_error()), 0;
  }
  return 1;
}

/* Refusals whose texts all differ. */
static int refuse(const struct library *lib, int count) {
  fa_desc desc;
  lib->desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = 64;
  desc.device = FA_DEVICE_CUDA;
  for (int i = 0; i < count; i++) {
    fa_op *op;
    desc.device_index = 1000 + i;
    if (lib->create(&desc, &op) != FA_ERROR_NO_DEVICE) return printf("fa_create: %s\n", lib->last_error()), 0;
  }
  return 1;
}

static int cycle(const char *path) {
  struct library lib;
  if (!load(&lib, path) || !ask(&lib) || !compute(&lib) || !refuse(&lib, 10)) return 0;
  if (dlclose(lib.handle) != 0) return printf("%s\n", dlerror()), 0;
  if (dlopen(path, RTLD_NOW | RTLD_NOLOAD)) return printf("dlclose left the library loaded\n"), 0;
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  enum { batches = 4, cycles = 50, refusals = 20000 };
  enum { min_leak = 16 }; /* a cycle */
  /* A leak shows in every batch; glibc and the loader keep something for themselves once. */
  long of_cycles = LONG_MAX;
  size_t before;
  for (int batch = 0; batch < batches; batch++) {
    before = allocated();
    for (int i = 0; i < cycles; i++)
      if (!cycle(argv[1])) return 1;
    const long kept = (long)(allocated() - before);
    if (kept < of_cycles) of_cycles = kept;
  }
  printf("%ld bytes kept by %d cycles of dlopen and dlclose\n", of_cycles, cycles);

  struct library lib;
  if (!load(&lib, argv[1]) || !refuse(&lib, 1)) return 1;
  before = allocated();
  if (!refuse(&lib, refusals)) return 1;
  const long of_refusals = (long)(allocated() - before);
  printf("%ld bytes kept by %d refusals\n", of_refusals, refusals);
  return of_cycles >= cycles * min_leak || of_refusals >= refusals;
}
