// A small attention kernel of the usual structure (cp.async, ldmatrix, mma, two stages of K and V), into which `fault`
// seeds one. Results are right or nearly so with most of them: the checks must see them. The fault is a
// parameter, so that one text is enough.
//
//   0 none                      5 keys waited for one group late   10 staging without __syncwarp
//   1 no barrier at the top     6 values waited for too late       11 the last copies are not waited for
//   2 no barrier before P V     7 half a warp at a barrier         12 a block writes its neighbour's rows
//   3 none at top and end       8 an uninitialised register        13 a barrier that a warp misses
//   4 rows that are misaligned  9 shared memory never written      14 output beyond its allocation
//  15 no barrier at the end: a clean twin, as the two others of a step give the same order
#include <cuda_fp16.h>
#include <stdint.h>

namespace {

constexpr int width = 64, rows = 64, keys = 64, threads = 128, tile = rows * width * 2;

__device__ uint32_t place(int row, int chunk, int stride = 128) {
  return row * stride + ((chunk ^ (row & 7)) << 4);
}

__device__ void copy_tile(uint32_t to, const __half *from, int first, int end, int stride = 128) {
  for (int i = 0; i < rows * 8 / threads; i++) {
    int index = threadIdx.x + i * threads, row = index >> 3, chunk = index & 7;
    bool inside = first + row < end;
    const __half *source = from + (inside ? first + row : 0) * width + chunk * 8;
    int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + place(row, chunk, stride)), "l"(source),
                 "r"(bytes)
                 : "memory");
  }
}

__device__ void commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int n>
__device__ void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

template <bool transposed>
__device__ void load_matrices(uint32_t (&r)[4], uint32_t from) {
  if (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}

__device__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ uint32_t pack(float a, float b) {
  __half2 both = __floats2half2_rn(a, b);
  return *reinterpret_cast<uint32_t *>(&both);
}

}  // namespace

/// One head of `count` queries and keys, a multiple of 64; grid: count / 64 blocks of 128 threads, 48 KiB of dynamic
/// shared memory. fault: see above.
extern "C" __global__ void __launch_bounds__(threads)
    attention(const __half *q, const __half *k, const __half *v, __half *o, int count, float scale, int fault) {
  extern __shared__ __align__(1024) char memory[];
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(memory));
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, first_row = blockIdx.x * rows;
  const int steps = count / keys;
  copy_tile(base, q, first_row, count, fault == 4 ? 136 : 128);
  copy_tile(base + tile, k, 0, count);
  commit();
  copy_tile(base + 2 * tile, v, 0, count);
  commit();
  float out[8][4] = {}, best[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  uint32_t queries[4][4];
  for (int step = 0; step < steps; step++) {
    uint32_t key_tile = base + tile + (step & 1) * 2 * tile, value_tile = key_tile + tile;
    if (fault == 5)
      wait<2>();
    else
      wait<1>();
    if (fault != 1 && fault != 3) __syncthreads();
    if (step == 0)
      for (int i = 0; i < 4; i++)
        load_matrices<false>(queries[i], base + place(warp * 16 + (lane & 15), i * 2 + (lane >> 4)));
    float score[8][4] = {};
    for (int i = 0; i < 4; i++)
      for (int n = 0; n < 4; n++) {
        uint32_t b[4];
        load_matrices<false>(b, key_tile + place(n * 16 + (lane & 7) + ((lane >> 4) << 3), i * 2 + ((lane >> 3) & 1)));
        multiply(score[n * 2], queries[i], b[0], b[1]);
        multiply(score[n * 2 + 1], queries[i], b[2], b[3]);
      }
    if (step + 1 < steps) {
      uint32_t next = base + tile + ((step + 1) & 1) * 2 * tile;
      copy_tile(next, k, (step + 1) * keys, count);
      commit();
      copy_tile(next + tile, v, (step + 1) * keys, count);
    } else {
      commit();
    }
    commit();
    for (int half = 0; half < 2; half++) {
      float high = best[half];
      for (int n = 0; n < 8; n++) high = fmaxf(high, fmaxf(score[n][half * 2], score[n][half * 2 + 1]));
      high = fmaxf(high, __shfl_xor_sync(~0u, high, 1));
      high = fmaxf(high, __shfl_xor_sync(~0u, high, 2));
      float rescale = exp2f((best[half] - high) * scale), added = 0;
      asm volatile(
          "{\n.reg .pred p;\n.reg .f32 never;\nsetp.ne.s32 p, %1, 8;\n@p mov.f32 never, 0f00000000;\n"
          "add.f32 %0, %0, never;\n}"
          : "+f"(rescale)
          : "r"(fault));
      best[half] = high;
      for (int n = 0; n < 8; n++)
        for (int j = 0; j < 2; j++) {
          float &cell = score[n][half * 2 + j];
          cell = exp2f((cell - high) * scale);
          added += cell;
        }
      sum[half] = sum[half] * rescale + added;
      for (int n = 0; n < 8; n++) out[n][half * 2] *= rescale, out[n][half * 2 + 1] *= rescale;
    }
    if (fault == 6)
      wait<3>();
    else
      wait<2>();
    bool misses = fault == 2 || (fault == 7 && lane >= 16) || (fault == 13 && warp == 3 && step == 0);
    if (!misses) __syncthreads();
    for (int i = 0; i < 4; i++) {
      uint32_t p[4];
      for (int t = 0; t < 4; t++)
        p[t] = pack(score[i * 2 + (t >> 1)][(t & 1) * 2], score[i * 2 + (t >> 1)][(t & 1) * 2 + 1]);
      for (int n = 0; n < 4; n++) {
        uint32_t b[4];
        load_matrices<true>(b, value_tile + place(i * 16 + (lane & 15), n * 2 + (lane >> 4)));
        multiply(out[n * 2], p, b[0], b[1]);
        multiply(out[n * 2 + 1], p, b[2], b[3]);
      }
    }
    if (fault != 3 && fault != 15) __syncthreads();
  }
  wait<0>();
  if (fault == 11) copy_tile(base + tile, k, 0, count);
  for (int half = 0; half < 2; half++) {
    float total = sum[half];
    total += __shfl_xor_sync(~0u, total, 1);
    total += __shfl_xor_sync(~0u, total, 2);
    for (int n = 0; n < 8; n++) out[n][half * 2] /= total, out[n][half * 2 + 1] /= total;
  }
  for (int n = 0; n < 8; n++)
    for (int half = 0; half < 2; half++) {
      int row = warp * 16 + (lane >> 2) + half * 8;
      char *to = memory + place(row, n) + (lane & 3) * 4;
      if (fault != 9 || lane != 5)
        *reinterpret_cast<uint32_t *>(to + (fault == 9 ? 5 * tile : 0)) = pack(out[n][half * 2], out[n][half * 2 + 1]);
    }
  if (fault != 10) __syncwarp();
  for (int i = 0; i < 4; i++) {
    int row = warp * 16 + i * 4 + (lane >> 3), chunk = lane & 7;
    int to = fault == 12 ? (first_row + row * 2) % count : fault == 14 ? first_row + row + 1 : first_row + row;
    *reinterpret_cast<uint4 *>(o + static_cast<int64_t>(to) * width + chunk * 8) =
        *reinterpret_cast<const uint4 *>(memory + place(row, chunk) + (fault == 9 ? 5 * tile : 0));
  }
}
