// Attention on sm_100a: 128 queries a block, scores and values by tcgen05.mma, probabilities through tensor memory.
#include "tensor_attention.cuh"

__device__ inline uint64_t descriptor(uint32_t address) {
  return (address & 0x3ffff) >> 4 | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 46 |
         uint64_t{2} << 61;
}

#define EIGHT(c, x, i) \
  c(x[i]), c(x[i + 1]), c(x[i + 2]), c(x[i + 3]), c(x[i + 4]), c(x[i + 5]), c(x[i + 6]), c(x[i + 7])
#define ALL \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, \
%23, %24, %25, %26, %27, %28, %29, %30, %31}"

__device__ inline void load_columns(uint32_t *x, uint32_t from) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 " ALL ", [%32];"
               : EIGHT("=r", x, 0), EIGHT("=r", x, 8), EIGHT("=r", x, 16), EIGHT("=r", x, 24)
               : "r"(from));
}
__device__ inline void store_columns(uint32_t to, const uint32_t *x) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x32.b32 [%32], " ALL ";" ::EIGHT("r", x, 0), EIGHT("r", x, 8),
               EIGHT("r", x, 16), EIGHT("r", x, 24), "r"(to)
               : "memory");
}
__device__ inline void load_row(uint32_t (&x)[64], uint32_t from, bool waits = true) {
  load_columns(x, from);
  load_columns(x + 32, from + 32);
  if (waits) asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}
__device__ inline void multiply(uint32_t d, uint64_t a, uint64_t b, uint32_t shape, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}\n" ::"r"(d),
      "l"(a), "l"(b), "r"(shape), "r"(accumulate)
      : "memory");
}
__device__ inline void multiply_stored(uint32_t d, uint32_t a, uint64_t b, uint32_t shape, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;\n}\n" ::"r"(
          d),
      "r"(a), "l"(b), "r"(shape), "r"(accumulate)
      : "memory");
}
__device__ inline void commit(uint32_t barrier) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void fence_before() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
__device__ inline void fence_after() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}
__device__ inline void synchronise() {
  fence_before();
  __syncthreads();
  fence_after();
}

extern "C" __global__ void __launch_bounds__(128, 1)
    attention(const __grid_constant__ CUtensorMap queries, const __grid_constant__ CUtensorMap keys,
              const __grid_constant__ CUtensorMap all_values, __half *out, const Sizes sizes FAULT_PARAMETER) {
  extern __shared__ __align__(1024) char memory[];  // Q (two tiles), K, V
  __shared__ __align__(8) uint64_t barriers[2];
  __shared__ uint32_t columns;
  uint32_t base = shared_address(memory), k_at = base + 2 * tile_bytes, v_at = k_at + tile_bytes;
  uint32_t loaded = shared_address(barriers), multiplied = loaded + 8;
  int thread = threadIdx.x, warp = thread / 32, first = blockIdx.x * 128, head = blockIdx.y;
  if (thread == 0) {
    barrier_init(loaded, 1);
    barrier_init(multiplied, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (warp == 0) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 256;" ::"r"(shared_address(&columns))
                 : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
  }
  synchronise();
  uint32_t s_at = columns, p_at = s_at + 64, o_at = s_at + 128, mine = uint32_t(FAULT(7) ? (warp + 1) % 4 : warp) << 21;
  const uint32_t shape = 1u << 4 | 64u / 8 << 17 | 128u / 16 << 24, transposed_v = FAULT(1) ? 0 : 1u << 16;
  float o[64] = {}, greatest = -INFINITY, sum = 0;
  int blocks = (sizes.keys + 63) / 64;
  for (int n = 0; n < blocks; n++) {
    if (thread == 0) {
      barrier_expect(loaded, ((n == 0 ? 4 : 2) - (FAULT(6) ? 1 : 0)) * tile_bytes);
      if (n == 0) {
        load_tile(base, &queries, loaded, first, head);
        load_tile(base + tile_bytes, &queries, loaded, first + 64, head);
      }
      load_tile(k_at, &keys, loaded, n * 64, head);
      load_tile(v_at, &all_values, loaded, n * 64, head);
      barrier_wait(loaded, n & 1);
      for (int k = 0; k < 4; k++) multiply(s_at, descriptor(base + 32 * k), descriptor(k_at + 32 * k), shape, k != 0);
      commit(multiplied);
    }
    if (!FAULT(2)) barrier_wait(multiplied, 0);
    if (!FAULT(8)) fence_after();
    uint32_t x[64], p[32];
    load_row(x, s_at + mine, !FAULT(9));
    float top = greatest;
#pragma unroll
    for (int i = 0; i < 64; i++) {
      if (n * 64 + i >= sizes.keys) x[i] = __float_as_uint(-INFINITY);
      top = fmaxf(top, __uint_as_float(x[i]));
    }
    float correction = exp2_of((greatest - top) * sizes.scale);
    greatest = top;
    sum *= correction;
#pragma unroll
    for (int i = 0; i < 32; i++) {
      float low = exp2_of((__uint_as_float(x[2 * i]) - top) * sizes.scale);
      float high = exp2_of((__uint_as_float(x[2 * i + 1]) - top) * sizes.scale);
      sum += low + high;
      p[i] = halves(low, high);
    }
    store_columns(p_at + mine, p);
    if (!FAULT(10)) asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    if (!FAULT(11)) fence_before();
    if (!FAULT(5)) __syncthreads();
    fence_after();
    if (thread == 0) {
      for (int k = 0; k < 4; k++)
        multiply_stored(o_at, p_at + 8 * k, descriptor(v_at + 2048 * k), shape | transposed_v, k != 0);
      commit(multiplied);
    }
    barrier_wait(multiplied, 1);
    fence_after();
    load_row(x, o_at + mine);
#pragma unroll
    for (int i = 0; i < 64; i++) o[i] = o[i] * correction + __uint_as_float(x[i]);
    if (!FAULT(4)) synchronise();
  }
  if (first + thread < sizes.rows) {
    uint32_t *to = reinterpret_cast<uint32_t *>(out + (size_t(head) * sizes.rows + first + thread) * head_size);
#pragma unroll
    for (int i = 0; i < 32; i++) to[i] = halves(o[2 * i] / sum, o[2 * i + 1] / sum);
  }
  __syncthreads();
  if (warp == 0 && !FAULT(3)) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 256;" ::"r"(s_at));
}
