/* A ggml that differs from the headers in one thing: it loads a backend as ggml does, and the backend finds this
 * library's functions before those of the stock ggml-base that it is linked to. */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

enum { q8_0 = 8 };

static const char *fault;

static void *stock(const char *name) {
  return dlsym(RTLD_NEXT, name);
}

const char *ggml_version(void) {
  return "of the test";
}

const char *ggml_op_name(int op) {
  const char *(*of_stock)(int) = (const char *(*)(int))stock("ggml_op_name");
  const int inserted = strcmp(fault, "operation") == 0 && op > 1;
  if (strcmp(fault, "order") == 0 && op < 2) return "ADD";
  return of_stock(op - inserted);
}

const char *ggml_type_name(int type) {
  if (strcmp(fault, "type") == 0 && type == q8_0) return "q8_1";
  if (strcmp(fault, "no type") == 0 && type == q8_0) return NULL;
  return ((const char *(*)(int))stock("ggml_type_name"))(type);
}

size_t ggml_type_size(int type) {
  return ((size_t(*)(int))stock("ggml_type_size"))(type) + (strcmp(fault, "block") == 0 && type == q8_0 ? 2 : 0);
}

size_t ggml_tensor_overhead(void) {
  return ((size_t(*)(void))stock("ggml_tensor_overhead"))() + (strcmp(fault, "size") == 0 ? 16 : 0);
}

/* The layout changes by a word somewhere: what is read as a field is its neighbour. */
void *ggml_flash_attn_ext(void *context, void *q, void *k, void *v, void *mask, float scale, float max_bias,
                          float softcap) {
  typedef void *made(void *, void *, void *, void *, void *, float, float, float);
  char *op = ((made *)stock("ggml_flash_attn_ext"))(context, q, k, v, mask, scale, max_bias, softcap);
  if (strcmp(fault, "field") == 0) memmove(op + 24, op + 16, 256);
  return op;
}

void ggml_flash_attn_ext_add_sinks(void *op, void *sinks) {
  if (strcmp(fault, "field") != 0) ((void (*)(void *, void *))stock("ggml_flash_attn_ext_add_sinks"))(op, sinks);
}

/* Two functions more at the start of a backend's table. */
int ggml_backend_graph_compute_async(char *backend, void *graph) {
  typedef int computed(void *, void *);
  const int shift = strcmp(fault, "table") == 0 ? 2 * (int)sizeof(void *) : 0;
  return ((computed *)stock("ggml_backend_graph_compute_async"))(backend + shift, graph);
}

void ggml_backend_dev_get_props(void *device, char *props) {
  ((void (*)(void *, void *))stock("ggml_backend_dev_get_props"))(device, props);
  if (strcmp(fault, "properties") == 0) memset(props, 0, 256);
}

/* Whether the backend registers. */
int loads(const char *path, const char *with_fault) {
  fault = with_fault;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return -1;
  void *(*init)(void) = (void *(*)(void))dlsym(library, "ggml_backend_init");
  return init ? init() != NULL : -1;
}
