/* A step of decoding as a CUDA graph: captured once, launched for every token. All that changes from step to step,
 * lengths included, is in the GPU's memory, and the workspace is sized for the whole cache. Checked against the CPU.
 *
 *   cc graph.c $(pkg-config --cflags --libs fa) -lm -ldl
 */
#include <fa.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"

enum { capacity = 96, prompt = 90, heads = 4, kv_heads = 2, dim = 64, q_size = heads * dim, kv_size = kv_heads * dim };

static float q[q_size], k[capacity][kv_size], v[capacity][kv_size], out[q_size], expected[q_size];

static void fail(const char *text) {
  fprintf(stderr, "%s\n", text);
  exit(1);
}

static void check(fa_status status) {
  if (status != FA_OK) fail(fa_last_error());
}

static void check_cuda(int result) {
  if (result != 0) fail("the driver failed");
}

static void *on_gpu(size_t bytes) {
  void *memory;
  check_cuda(cuda.alloc(&memory, bytes));
  return memory;
}

static void fill(float *x, int n, unsigned seed) {
  for (int i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
  }
}

/* One query against a cache of which the first *used tokens are there. */
static fa_forward_args step(void *q_at, void *k_at, void *v_at, void *out_at, const int32_t *used) {
  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q_at, FA_F32, 1, 1, heads, dim);
  fa_tensor_init(&args.k, k_at, FA_F32, 1, capacity, kv_heads, dim);
  fa_tensor_init(&args.v, v_at, FA_F32, 1, capacity, kv_heads, dim);
  fa_tensor_init(&args.out, out_at, FA_F32, 1, 1, heads, dim);
  args.seqused_k = used;
  return args;
}

int main(void) {
  void *context, *stream, *graph, *exec;
  if (!load_driver()) fail("there is no NVIDIA driver");
  check_cuda(cuda.init(0));
  check_cuda(cuda.retain(&context, 0));
  check_cuda(cuda.set_current(context));
  check_cuda(cuda.create_stream(&stream, 1));
  float *gpu_q = on_gpu(sizeof q), *gpu_k = on_gpu(sizeof k), *gpu_v = on_gpu(sizeof v), *gpu_out = on_gpu(sizeof out);
  int32_t *gpu_used = on_gpu(sizeof *gpu_used), used = prompt;
  fill(k[0], prompt * kv_size, 1);
  fill(v[0], prompt * kv_size, 2);
  check_cuda(cuda.copy(gpu_k, k, sizeof k, stream));
  check_cuda(cuda.copy(gpu_v, v, sizeof v, stream));

  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = dim;
  desc.device = FA_DEVICE_CUDA;
  fa_op *op, *cpu;
  check(fa_create(&desc, &op));
  desc.device = FA_DEVICE_CPU;
  check(fa_create(&desc, &cpu));

  fa_forward_args args = step(gpu_q, gpu_k, gpu_v, gpu_out, gpu_used);
  args.stream = stream;
  check(fa_forward_workspace_size(op, &args, &args.workspace_size)); /* for the capacity, so for every step */
  if (args.workspace_size > 0) args.workspace = on_gpu(args.workspace_size);

  check_cuda(cuda.begin_capture(stream, 0)); /* from here to the end of the capture nothing runs */
  check(fa_forward(op, &args));
  check_cuda(cuda.end_capture(stream, &graph));
  check_cuda(cuda.instantiate(&exec, graph, 0));

  float worst = 0;
  for (; used < capacity; ++used) {
    fill(q, q_size, 100u + (unsigned)used); /* a model would give these three */
    fill(k[used], kv_size, 200u + (unsigned)used);
    fill(v[used], kv_size, 300u + (unsigned)used);
    const int32_t now = used + 1;
    check_cuda(cuda.copy(gpu_q, q, sizeof q, stream));
    check_cuda(cuda.copy(gpu_k + used * kv_size, k[used], sizeof k[used], stream));
    check_cuda(cuda.copy(gpu_v + used * kv_size, v[used], sizeof v[used], stream));
    check_cuda(cuda.copy(gpu_used, &now, sizeof now, stream));
    check_cuda(cuda.launch(exec, stream));
    check_cuda(cuda.copy(out, gpu_out, sizeof out, stream));
    check_cuda(cuda.synchronize(stream));

    const fa_forward_args reference = step(q, k, v, expected, &now);
    check(fa_forward(cpu, &reference));
    for (int i = 0; i < q_size; ++i) worst = fabsf(out[i] - expected[i]) <= worst ? worst : fabsf(out[i] - expected[i]);
  }
  printf("%d launches of one graph on %s agree with the CPU to %.1e\n", capacity - prompt, fa_op_kernel_name(op),
         (double)worst);
  fa_destroy(cpu);
  fa_destroy(op);
  return !(worst < 1e-5f);
}
