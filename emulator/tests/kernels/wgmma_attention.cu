// Attention on sm_90a: a warpgroup loads with TMA, another one multiplies with wgmma; two stages of keys and values.
#include "tensor_attention.cuh"

constexpr int stages = 2;

__device__ inline uint64_t descriptor(uint32_t address) {
  return (address & 0x3ffff) >> 4 | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}

#define EIGHT(x, i)                                                                                           \
  "+f"(x[i]), "+f"(x[i + 1]), "+f"(x[i + 2]), "+f"(x[i + 3]), "+f"(x[i + 4]), "+f"(x[i + 5]), "+f"(x[i + 6]), \
      "+f"(x[i + 7])
#define ALL \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, \
%23, %24, %25, %26, %27, %28, %29, %30, %31}"

/// s (+)= q k^T over 16 of the head's columns.
__device__ inline void scores(float (&s)[32], uint64_t q, uint64_t k, int accumulate) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " ALL
               ", %32, %33, p, 1, 1, 0, 0;\n}\n"
               : EIGHT(s, 0), EIGHT(s, 8), EIGHT(s, 16), EIGHT(s, 24)
               : "l"(q), "l"(k), "r"(accumulate));
}
/// o += p v over 16 keys; p is in registers.
__device__ inline void values(float (&o)[32], const uint32_t (&p)[4], uint64_t v) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " ALL ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"
               : EIGHT(o, 0), EIGHT(o, 8), EIGHT(o, 16), EIGHT(o, 24)
               : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v));
}
__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ inline void finish_products() {
  commit_products();
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(256, 1)
    attention(const __grid_constant__ CUtensorMap queries, const __grid_constant__ CUtensorMap keys,
              const __grid_constant__ CUtensorMap all_values, __half *out, const Sizes sizes FAULT_PARAMETER) {
  extern __shared__ __align__(1024) char memory[];  // Q, then K and V of each stage
  __shared__ __align__(8) uint64_t barriers[1 + 2 * stages];
  uint32_t base = shared_address(memory), q_full = shared_address(barriers), full = q_full + 8,
           empty = full + 8 * stages;
  int thread = threadIdx.x % 128, first = blockIdx.x * 64, head = blockIdx.y, blocks = (sizes.keys + 63) / 64;
  if (threadIdx.x == 0) {
    barrier_init(q_full, 1);
    for (int i = 0; i < stages; i++) barrier_init(full + 8 * i, 1), barrier_init(empty + 8 * i, 128);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (thread != 0) return;
    barrier_expect(q_full, tile_bytes);
    load_tile(base, &queries, q_full, first, head);
    for (int n = 0; n < blocks; n++) {
      int stage = n % stages;
      uint32_t at = base + tile_bytes * (1 + 2 * stage);
      if (!FAULT(5)) barrier_wait(empty + 8 * stage, (n / stages & 1) ^ 1);
      barrier_expect(full + 8 * stage, 2 * tile_bytes - (FAULT(7) ? 128 : 0));
      load_tile(at, &keys, full + 8 * stage, n * 64, head);
      load_tile(at + tile_bytes, &all_values, full + 8 * stage, n * 64, head);
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  float o[32] = {}, greatest[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
  barrier_wait(q_full, 0);
  for (int n = 0; n < blocks; n++) {
    int stage = n % stages;
    uint32_t k_at = base + tile_bytes * (1 + 2 * stage), v_at = k_at + tile_bytes;
    float s[32];
    if (!FAULT(3)) barrier_wait(full + 8 * stage, (FAULT(6) ? n : n / stages) & 1);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; k++) scores(s, descriptor(base + 32 * k), descriptor(k_at + 32 * k), k != 0);
    if (FAULT(4))
      commit_products();
    else
      finish_products();
#pragma unroll
    for (int i = 0; i < 32; i++)
      if (n * 64 + i / 4 * 8 + thread % 4 * 2 + i % 2 >= sizes.keys) s[i] = -INFINITY;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float top = greatest[half];
#pragma unroll
      for (int i = 2 * half; i < 32; i += 4) top = fmaxf(top, fmaxf(s[i], s[i + 1]));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
      float correction = exp2_of((greatest[half] - top) * sizes.scale);
      greatest[half] = top;
      sum[half] *= correction;
#pragma unroll
      for (int i = 2 * half; i < 32; i += 4)
#pragma unroll
        for (int j = i; j < i + 2; j++) {
          s[j] = exp2_of((s[j] - top) * sizes.scale);
          sum[half] += s[j];
          o[j] *= correction;
        }
    }
    uint32_t p[4][4];
#pragma unroll
    for (int i = 0; i < 16; i++) p[i / 4][i % 4] = halves(s[2 * i], s[2 * i + 1]);
    if (!FAULT(8)) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; k++) values(o, p[k], descriptor(v_at + (FAULT(1) ? 1024 : 2048) * k));
    if (FAULT(2)) barrier_arrive(empty + 8 * stage);
    finish_products();
    if (!FAULT(2)) barrier_arrive(empty + 8 * stage);
  }
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float total = sum[half] + __shfl_xor_sync(~0u, sum[half], 1);
    total += __shfl_xor_sync(~0u, total, 2);
    int row = first + thread / 32 * 16 + thread % 32 / 4 + 8 * half;
    if (row >= sizes.rows) continue;
#pragma unroll
    for (int i = 2 * half; i < 32; i += 4)
      *reinterpret_cast<uint32_t *>(out + (size_t(head) * sizes.rows + row) * head_size + i / 4 * 8 + thread % 4 * 2) =
          halves(o[i] / total, o[i + 1] / total);
  }
}
