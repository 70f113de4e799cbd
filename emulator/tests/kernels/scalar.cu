// Small kernels of scalar instructions as nvcc writes them: halves, bfloats, fp8, cooperative groups, atomics, printf,
// malloc and assert, calls through pointers.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cassert>
#include <cstdio>

namespace groups = cooperative_groups;

/// y = x * x + x in pairs of halves, then the first half's exponential.
extern "C" __global__ void halves(const float2 *in, float2 *out) {
  int i = threadIdx.x;
  __half2 x = __float22half2_rn(in[i]);
  __half2 y = __hfma2(x, x, x);
  out[2 * i] = __half22float2(y);
  out[2 * i + 1] = __half22float2(__hmax2(__hadd2(y, x), __hneg2(x)));
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
extern "C" __global__ void bfloats(const float2 *in, float2 *out) {
  int i = threadIdx.x;
  __nv_bfloat162 x = __float22bfloat162_rn(in[i]);
  __nv_bfloat162 y = __hfma2(x, x, x);
  out[2 * i] = __bfloat1622float2(y);
  out[2 * i + 1] = __bfloat1622float2(__hmin2(__hmul2(y, x), __habs2(x)));
}
#endif

/// There and back.
extern "C" __global__ void fp8(const float *in, float *out) {
  int i = threadIdx.x;
  out[2 * i] = float(__nv_fp8_e4m3(in[i]));
  out[2 * i + 1] = float(__nv_fp8_e5m2(in[i]));
}

/// Sums of tiles of 8, of the lanes with odd values, and a running one over the block.
extern "C" __global__ void grouped(const int *in, int *out) {
  auto block = groups::this_thread_block();
  auto warp = groups::tiled_partition<32>(block);
  auto tile = groups::tiled_partition<8>(warp);
  int value = in[block.thread_rank()], *mine = out + 4 * block.thread_rank();
  mine[0] = groups::reduce(tile, value, groups::plus<int>());
  mine[1] = -1;
  if (value & 1) {
    auto odd = groups::coalesced_threads();
    mine[1] = groups::reduce(odd, value, groups::plus<int>());
  }
  mine[2] = groups::reduce(warp, value, groups::greater<int>());
  mine[3] = static_cast<int>(__match_any_sync(0xffffffff, value & 3));
  block.sync();
}

/// Everything that many blocks may do to one place: cells of 0 sum, 1 least, 2 greatest, 3 bits, 4 a lock's counter.
extern "C" __global__ void counters(unsigned *cells, float *sums, unsigned long long *wide, __half2 *pairs) {
  unsigned id = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&cells[0], id);
  atomicMin(&cells[1], id + 7);
  atomicMax(&cells[2], id);
  atomicOr(&cells[3], 1u << (id & 31));
  atomicInc(&cells[4], 99);
  atomicAdd(&sums[0], 1.f);
  atomicAdd(&wide[0], 1ull << 33);
  atomicAdd(pairs, __floats2half2_rn(id < 1024 ? 1.f : 0.f, id < 512 ? 2.f : 0.f));
  // A lock around a plain increment, which two lanes of a warp want.
  for (bool done = id % 16 != 0; !done;) {
    if (atomicCAS(&cells[5], 0, 1) == 0) {
      __threadfence();
      volatile unsigned *guarded = &cells[6];
      *guarded = *guarded + 1;
      __threadfence();
      atomicExch(&cells[5], 0);
      done = true;
    }
  }
}

extern "C" __global__ void prints(int times) {
  if (threadIdx.x < 2)
    printf("thread %d of %s: %5.2f %llx %c|%-4d|\n", threadIdx.x, "two", times * 1.5, 1ull << 40, 'x', times);
}

extern "C" __global__ void allocates(int *out) {
  int *own = static_cast<int *>(malloc(40));
  for (int i = 0; i < 10; i++) own[i] = threadIdx.x * 10 + i;
  __syncthreads();
  int sum = 0;
  for (int i = 0; i < 10; i++) sum += own[i];
  out[threadIdx.x] = sum;
  free(own);
}

extern "C" __global__ void asserts(int limit) {
  assert(static_cast<int>(threadIdx.x) < limit);
}

__device__ __noinline__ int twice(int a) {
  return 2 * a;
}
__device__ __noinline__ int square(int a) {
  return a * a;
}
__device__ __noinline__ int negated(int a) {
  return -a;
}
typedef int (*Function)(int);

/// Lanes call different functions through a pointer.
extern "C" __global__ void pointers(int *out) {
  Function function = threadIdx.x % 3 == 0 ? twice : threadIdx.x % 3 == 1 ? square : negated;
  out[threadIdx.x] = function(threadIdx.x) + 1;
}

/// 64-bit division, and numbers that are wider than their registers.
extern "C" __global__ void divides(const long long *in, long long *out) {
  long long a = in[2 * threadIdx.x], b = in[2 * threadIdx.x + 1];
  out[2 * threadIdx.x] = a / b;
  out[2 * threadIdx.x + 1] = a % b + __mul64hi(a, b);
}

/// Functions of f32 and f64 from NVIDIA's library, with their range reductions.
extern "C" __global__ void functions(const float *in, double *out) {
  float x = in[threadIdx.x];
  double *mine = out + 6 * threadIdx.x;
  mine[0] = expf(x);
  mine[1] = logf(fabsf(x) + 0.1f);
  mine[2] = sinf(x * 100.f);
  mine[3] = exp(double(x));
  mine[4] = 1.0 / (double(x) * x + 0.5);
  mine[5] = tanhf(x) + sqrtf(fabsf(x)) + powf(fabsf(x), 1.7f);
}
