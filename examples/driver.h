/* The functions of the CUDA driver that the examples call. They are declared here and looked up at run time, so that no
 * CUDA toolkit is needed to compile. With one, include <cuda_runtime.h> and call cudaMalloc, cudaMemcpyAsync and so on
 * instead. */
#ifndef EXAMPLES_DRIVER_H
#define EXAMPLES_DRIVER_H

#include <dlfcn.h>
#include <stddef.h>

static struct {
  int (*init)(unsigned flags);
  int (*retain)(void **context, int device);
  int (*set_current)(void *context);
  int (*create_stream)(void **stream, unsigned flags);
  int (*alloc)(void **memory, size_t bytes); /* a CUdeviceptr has a pointer's size */
  int (*free)(void *memory);
  int (*copy)(void *to, const void *from, size_t bytes, void *stream); /* from any memory to any */
  int (*synchronize)(void *stream);
  int (*begin_capture)(void *stream, int mode);
  int (*end_capture)(void *stream, void **graph);
  int (*instantiate)(void **exec, void *graph, unsigned long long flags);
  int (*launch)(void *exec, void *stream);
} cuda;

static int load(const char *name, void *function) {
  static void *library;
  if (library == NULL) library = dlopen("libcuda.so.1", RTLD_NOW);
  *(void **)function = library != NULL ? dlsym(library, name) : NULL;
  return *(void **)function != NULL;
}

/* 1 when there is a driver. */
static int load_driver(void) {
  return load("cuInit", &cuda.init) && load("cuDevicePrimaryCtxRetain", &cuda.retain) &&
         load("cuCtxSetCurrent", &cuda.set_current) && load("cuStreamCreate", &cuda.create_stream) &&
         load("cuMemAlloc_v2", &cuda.alloc) && load("cuMemFree_v2", &cuda.free) && load("cuMemcpyAsync", &cuda.copy) &&
         load("cuStreamSynchronize", &cuda.synchronize) && load("cuStreamBeginCapture_v2", &cuda.begin_capture) &&
         load("cuStreamEndCapture", &cuda.end_capture) && load("cuGraphInstantiateWithFlags", &cuda.instantiate) &&
         load("cuGraphLaunch", &cuda.launch);
}

#endif
