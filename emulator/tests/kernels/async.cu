// Kernels of the tests of asynchronous copies, mbarriers and clusters, for SM 9.0a.
#include <cuda.h>
#include <stdint.h>

namespace {

__device__ uint32_t address_of(const void *shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

__device__ void init(uint32_t barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ void init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ uint64_t arrive(uint32_t barrier) {
  uint64_t state;
  asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(barrier) : "memory");
  return state;
}
__device__ void arrive_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ void arrive_remote(uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
__device__ bool passed(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done;
}
__device__ void wait(uint32_t barrier, uint32_t parity) {
  while (!passed(barrier, parity)) {
  }
}
__device__ void fence_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
__device__ uint32_t rank_in_cluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ void bulk_wait() {
  asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
}

struct Coordinates {
  int at[5];
};

#define LOAD(rank, list)                                                                                           \
  asm volatile("cp.async.bulk.tensor." #rank                                                                       \
               "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, " list "], [%2];" ::"r"(to), \
               "l"(map), "r"(barrier), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]), "r"(c.at[4])        \
               : "memory")

__device__ void load(int rank, uint32_t to, const CUtensorMap *map, uint32_t barrier, Coordinates c) {
  switch (rank) {
    case 1:
      LOAD(1, "{%3}");
      break;
    case 2:
      LOAD(2, "{%3, %4}");
      break;
    case 3:
      LOAD(3, "{%3, %4, %5}");
      break;
    case 4:
      LOAD(4, "{%3, %4, %5, %6}");
      break;
    default:
      LOAD(5, "{%3, %4, %5, %6, %7}");
      break;
  }
}

}  // namespace

/// One box of any tensor to shared memory, which is copied out byte by byte.
extern "C" __global__ void load_box(const __grid_constant__ CUtensorMap map, Coordinates at, int rank, int box_bytes,
                                    int bytes, uint8_t *out) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barrier;
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) shared[i] = 0xee;
  if (threadIdx.x == 0) {
    init(address_of(&barrier), 1);
    init_done();
  }
  fence_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    arrive_expect(address_of(&barrier), box_bytes);
    load(rank, address_of(shared), &map, address_of(&barrier), at);
  }
  wait(address_of(&barrier), 0);
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = shared[i];
}

/// An im2col box of a tensor of 4 dimensions, with offsets.
extern "C" __global__ void load_pixels(const __grid_constant__ CUtensorMap map, Coordinates at, uint16_t right,
                                       uint16_t down, int bytes, uint8_t *out) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    init(address_of(&barrier), 1);
    init_done();
    arrive_expect(address_of(&barrier), bytes);
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
        "%6}], [%2], {%7, %8};" ::"r"(address_of(shared)),
        "l"(&map), "r"(address_of(&barrier)), "r"(at.at[0]), "r"(at.at[1]), "r"(at.at[2]), "r"(at.at[3]), "h"(right),
        "h"(down)
        : "memory");
  }
  __syncthreads();
  wait(address_of(&barrier), 0);
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = shared[i];
}

/// Shared memory full of numbers to a box of a tensor of 2 dimensions: stored, then added.
extern "C" __global__ void store_box(const __grid_constant__ CUtensorMap map, int x, int y, int words, int add) {
  extern __shared__ __align__(1024) uint32_t numbers[];
  for (int i = threadIdx.x; i < words; i += blockDim.x) numbers[i] = 1000 + i;
  fence_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    if (add)
      asm volatile(
          "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),
          "r"(address_of(numbers)), "r"(x), "r"(y)
          : "memory");
    else
      asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),
                   "r"(address_of(numbers)), "r"(x), "r"(y)
                   : "memory");
    bulk_wait();
  }
}

/// A pipeline: one warp loads stages by bulk copies, the others add them up; out: a sum of each thread.
extern "C" __global__ void pipeline(const int *in, int blocks, int *out, int skip_arrive) {
  constexpr int stages = 2, words = 96;
  __shared__ __align__(128) int buffer[stages][words];
  __shared__ uint64_t full[stages], empty[stages];
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; s++) {
      init(address_of(&full[s]), 1);
      init(address_of(&empty[s]), words);
    }
    init_done();
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0)
      for (int b = 0; b < blocks; b++) {
        int s = b % stages, phase = b / stages & 1;
        wait(address_of(&empty[s]), phase ^ 1);
        arrive_expect(address_of(&full[s]), words * 4);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         address_of(buffer[s])),
                     "l"(in + b * words), "r"(words * 4), "r"(address_of(&full[s]))
                     : "memory");
      }
    return;
  }
  int thread = threadIdx.x - 32, sum = 0;
  for (int b = 0; b < blocks; b++) {
    int s = b % stages, phase = b / stages & 1;
    wait(address_of(&full[s]), phase);
    sum += buffer[s][thread];
    if (!(skip_arrive && thread == 5)) arrive(address_of(&empty[s]));
  }
  out[thread] = sum;
}

/// cp.async tracked by an mbarrier.
extern "C" __global__ void tracked(const int *in, int *out) {
  __shared__ int buffer[128];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) init(address_of(&barrier), blockDim.x);
  __syncthreads();
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address_of(buffer + threadIdx.x)), "l"(in + threadIdx.x)
               : "memory");
  int early = buffer[threadIdx.x];
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(address_of(&barrier)) : "memory");
  wait(address_of(&barrier), 0);
  out[threadIdx.x] = buffer[threadIdx.x ^ 1];
  out[128 + threadIdx.x] = early;
}

/// States, counts and drops of one mbarrier, by one thread.
extern "C" __global__ void states(uint32_t *out) {
  __shared__ uint64_t barrier;
  uint32_t b = address_of(&barrier), done = 0;
  init(b, 3);
  out[0] = passed(b, 1);  // the phase before the first one counts as complete
  out[1] = passed(b, 0);
  uint64_t state = arrive(b);
  asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(out[2]) : "l"(state));
  asm volatile("mbarrier.arrive.noComplete.shared::cta.b64 %0, [%1], 1;" : "=l"(state) : "r"(b) : "memory");
  asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(out[3]) : "l"(state));
  asm volatile("mbarrier.arrive_drop.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(b) : "memory");
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(done)
               : "r"(b), "l"(state)
               : "memory");
  out[4] = done;
  state = arrive(b);  // of two in this phase
  asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(out[5]) : "l"(state));
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 64;" ::"r"(b) : "memory");
  arrive(b);
  out[6] = passed(b, 1);  // bytes are missing
  asm volatile("mbarrier.complete_tx.shared::cta.b64 [%0], 64;" ::"r"(b) : "memory");
  out[7] = passed(b, 1);
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(b) : "memory");
}

/// A ring: every block of a cluster of 4 writes to the next one's shared memory, then adds to block 0's.
extern "C" __global__ void __cluster_dims__(4, 1, 1) ring(int *out, uint32_t *ranks) {
  __shared__ int box[64];
  __shared__ int total;
  __shared__ uint64_t barrier;
  uint32_t rank = rank_in_cluster(), next = (rank + 1) % 4;
  if (threadIdx.x == 0) {
    total = 0;
    init(address_of(&barrier), 64);
    init_done();
  }
  cluster_sync();
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address_of(box + threadIdx.x)), "r"(next));
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(blockIdx.x * 100 + threadIdx.x) : "memory");
  arrive_remote(address_of(&barrier), next);
  wait(address_of(&barrier), 0);
  out[blockIdx.x * 64 + threadIdx.x] = box[threadIdx.x];
  uint64_t zero;
  uint32_t of;
  asm volatile("mapa.u64 %0, %1, 0;" : "=l"(zero) : "l"(&total));
  asm volatile("getctarank.u64 %0, %1;" : "=r"(of) : "l"(zero));
  atomicAdd(reinterpret_cast<int *>(zero), 1);  // in block 0
  if (threadIdx.x == 0) ranks[blockIdx.x] = of * 16 + rank;
  cluster_sync();  // the next block has read its box
  if (threadIdx.x == 0) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(there),
                 "r"(7 * blockIdx.x), "r"((there & 0xff000000u) | (address_of(&barrier) & 0xffffffu))
                 : "memory");
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 4;" ::"r"(address_of(&barrier)) : "memory");
  }
  __syncthreads();
  arrive(address_of(&barrier));
  wait(address_of(&barrier), 1);
  if (threadIdx.x == 0) out[512 + blockIdx.x] = box[0];
  cluster_sync();
  if (threadIdx.x == 0) out[520 + blockIdx.x] = total;
}

/// Block 0 loads a box for both blocks of its cluster; each block also takes another tile.
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    share(const __grid_constant__ CUtensorMap map, int bytes, uint8_t *out) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    init(address_of(&barrier), 1);
    init_done();
    arrive_expect(address_of(&barrier), bytes);
  }
  cluster_sync();
  if (rank_in_cluster() == 0 && threadIdx.x == 0)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
        "[%1, {%3, %4}], [%2], %5;" ::"r"(address_of(shared)),
        "l"(&map), "r"(address_of(&barrier)), "r"(0), "r"(static_cast<int>(blockIdx.x) * 4), "h"(uint16_t{3})
        : "memory");
  wait(address_of(&barrier), 0);
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[blockIdx.x * bytes + i] = shared[i];
  cluster_sync();
}

/// Contiguous bulk copies: shared to the other block's shared memory, and a reduction to global memory. late: the
/// source is overwritten before it may be.
extern "C" __global__ void __cluster_dims__(2, 1, 1) exchange(int *sums, int *received, int late) {
  __shared__ __align__(16) int mine[32], other[32];
  __shared__ uint64_t barrier;
  uint32_t rank = rank_in_cluster(), there, signal;
  mine[threadIdx.x] = 100 * rank + threadIdx.x;
  if (threadIdx.x == 0) {
    init(address_of(&barrier), 1);
    init_done();
    arrive_expect(address_of(&barrier), 128);
  }
  fence_async();
  cluster_sync();
  if (threadIdx.x == 0) {
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address_of(other)), "r"(rank ^ 1));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(signal) : "r"(address_of(&barrier)), "r"(rank ^ 1));
    asm volatile(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];" ::"r"(there),
        "r"(address_of(mine)), "r"(signal)
        : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], 128;" ::"l"(sums),
                 "r"(address_of(mine))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    if (!late) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
  __syncthreads();
  wait(address_of(&barrier), 0);
  received[blockIdx.x * 32 + threadIdx.x] = other[threadIdx.x];
  cluster_sync();
  if (late) mine[threadIdx.x] = -1;
  __syncthreads();
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
