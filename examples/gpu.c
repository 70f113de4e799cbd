/* A call on the GPU: tensors in its memory, and a stream on which everything is in order. driver.h has the driver's
 * functions.
 *
 *   cc gpu.c $(pkg-config --cflags --libs fa) -lm -ldl
 */
#include <fa.h>
#include <math.h>
#include <stdio.h>

#include "driver.h"

enum { seq = 200, heads = 4, kv_heads = 2, dim = 64 };

static float q[seq * heads * dim], k[seq * kv_heads * dim], v[seq * kv_heads * dim];
static float out[seq * heads * dim], expected[seq * heads * dim];

/* out = attention(q, k, v), wherever the four are. */
static int attention(fa_device device, float *q_at, float *k_at, float *v_at, float *out_at, void *stream) {
  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = dim;
  desc.mask = FA_MASK_CAUSAL;
  desc.device = device;
  fa_op *op;
  if (fa_create(&desc, &op) != FA_OK) {
    fprintf(stderr, "%s\n", fa_last_error());
    return 0;
  }

  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q_at, FA_F32, 1, seq, heads, dim);
  fa_tensor_init(&args.k, k_at, FA_F32, 1, seq, kv_heads, dim);
  fa_tensor_init(&args.v, v_at, FA_F32, 1, seq, kv_heads, dim);
  fa_tensor_init(&args.out, out_at, FA_F32, 1, seq, heads, dim);
  args.stream = stream;
  fa_status status = fa_forward(op, &args); /* on a GPU: enqueued */
  printf("%s%s%s\n", fa_op_kernel_name(op), status == FA_OK ? "" : ": ", status == FA_OK ? "" : fa_last_error());
  fa_destroy(op);
  return status == FA_OK;
}

/* The same on the GPU, by way of its memory; nothing waits before the last line. */
static int attention_on_gpu(void) {
  void *context, *stream, *gpu_q, *gpu_k, *gpu_v, *gpu_out;
  if (cuda.init(0) || cuda.retain(&context, 0) || cuda.set_current(context) || cuda.create_stream(&stream, 1)) return 0;
  if (cuda.alloc(&gpu_q, sizeof q) || cuda.alloc(&gpu_k, sizeof k) || cuda.alloc(&gpu_v, sizeof v)) return 0;
  if (cuda.alloc(&gpu_out, sizeof out)) return 0;
  if (cuda.copy(gpu_q, q, sizeof q, stream) || cuda.copy(gpu_k, k, sizeof k, stream)) return 0;
  if (cuda.copy(gpu_v, v, sizeof v, stream)) return 0;
  if (!attention(FA_DEVICE_CUDA, gpu_q, gpu_k, gpu_v, gpu_out, stream)) return 0;
  if (cuda.copy(out, gpu_out, sizeof out, stream) || cuda.synchronize(stream)) return 0;
  return !cuda.free(gpu_q) && !cuda.free(gpu_k) && !cuda.free(gpu_v) && !cuda.free(gpu_out);
}

int main(void) {
  for (int i = 0; i < seq * heads * dim; ++i) q[i] = (float)(i * 37 % 101) / 50 - 1;
  for (int i = 0; i < seq * kv_heads * dim; ++i)
    k[i] = (float)(i * 53 % 103) / 50 - 1, v[i] = (float)(i * 71 % 107) / 50 - 1;

  if (!load_driver()) {
    fprintf(stderr, "there is no NVIDIA driver\n");
    return 1;
  }
  if (!attention_on_gpu()) {
    fprintf(stderr, "the GPU did not do it\n");
    return 1;
  }
  if (!attention(FA_DEVICE_CPU, q, k, v, expected, NULL)) return 1;

  float largest = 0;
  for (int i = 0; i < seq * heads * dim; ++i) largest = fmaxf(largest, fabsf(out[i] - expected[i]));
  printf("the GPU's result is the CPU's to %.1e\n", largest);
  return largest > 1e-5f;
}
