/* unload LIBRARY: loads libfa, runs a call on three threads, and unloads it: its threads start with the call, not with the op,
 * and have ended before its code is gone. A second time works as the first one did.
 * [F93] [F122] */
#include <dirent.h>
#include <dlfcn.h>
#include <fa.h>
#include <stdio.h>
#include <string.h>

enum { rows = 600, keys = 200, heads = 4, dim = 16 };

static float q[rows * heads * dim], k[keys * heads * dim], v[keys * heads * dim], out[rows * heads * dim];

static int threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  int count = 0;
  for (struct dirent *task; tasks && (task = readdir(tasks));) count += task->d_name[0] != '.';
  if (tasks) closedir(tasks);
  return count;
}

static int is_mapped(const char *path) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[4096];
  int found = 0;
  while (maps && fgets(line, sizeof line, maps)) found |= strstr(line, path) != NULL;
  if (maps) fclose(maps);
  return found;
}

static void *function(void *library, const char *name) {
  void *address = dlsym(library, name);
  if (!address) fprintf(stderr, "%s\n", dlerror());
  return address;
}

/* ISO C has no conversion of a data pointer to that of a function; POSIX has. */
#define FUNCTION(name)                            \
  __typeof__(&name) p_##name;                     \
  *(void **)&p_##name = function(library, #name); \
  if (!p_##name) return 1

static int run(void *library, int before) {
  fa_desc desc;
  fa_forward_args args;
  fa_op *op = NULL;
  FUNCTION(fa_desc_init);
  FUNCTION(fa_forward_args_init);
  FUNCTION(fa_tensor_init);
  FUNCTION(fa_create);
  FUNCTION(fa_forward);
  FUNCTION(fa_destroy);
  p_fa_desc_init(&desc, sizeof desc);
  p_fa_forward_args_init(&args, sizeof args);
  desc.device = FA_DEVICE_CPU;
  desc.dtype_q = FA_F32;
  desc.head_dim = dim;
  desc.num_threads = 3;
  p_fa_tensor_init(&args.q, q, FA_F32, 1, rows, heads, dim);
  p_fa_tensor_init(&args.k, k, FA_F32, 1, keys, heads, dim);
  p_fa_tensor_init(&args.v, v, FA_F32, 1, keys, heads, dim);
  p_fa_tensor_init(&args.out, out, FA_F32, 1, rows, heads, dim);
  if (p_fa_create(&desc, &op) != FA_OK) return 1;
  if (threads() != before) {
    fprintf(stderr, "fa_create started threads\n");
    return 1;
  }
  if (p_fa_forward(op, &args) != FA_OK) return 1;
  p_fa_destroy(op);
  return 0;
}

int main(int argc, char **argv) {
  int before = threads();
  if (argc != 2) return 2;
  for (int turn = 0; turn < 3; ++turn) {
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    if (run(library, before)) {
      fprintf(stderr, "the call failed\n");
      return 1;
    }
    if (threads() != before + 2) {
      fprintf(stderr, "%d threads during the call's life, expected %d\n", threads(), before + 2);
      return 1;
    }
    dlclose(library);
    if (is_mapped(argv[1])) {
      fprintf(stderr, "%s is still there: this test proves nothing\n", argv[1]);
      return 1;
    }
    if (threads() != before) {
      fprintf(stderr, "%d threads are left, expected %d\n", threads(), before);
      return 1;
    }
  }
  printf("loaded and unloaded three times\n");
  return 0;
}
