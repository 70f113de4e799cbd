// The first steps of the ladder in perf/gpu-instruction-counts.md: the products of the scalar kernel (kernels/forward/simt) by its tile,
// with loads of FA_LADDER_WIDTH numbers: 1, or 4 (16 bytes, from global memory and from shared memory). For f16 tensors
// whose rows are contiguous and aligned, without masks or other features; its results take the place of the scalar
// kernel's.
#include "common/build.cuh"
#include "forward/simt/forward.cuh"

namespace fa::kernels::simt {

constexpr int width = FA_LADDER_WIDTH, halves = width == 1 ? 1 : 8;  // of a load from shared, from global memory
constexpr int dim = FA_DIM, tile_rows = rows(dim), tile_keys = keys(dim), columns = tile_keys / lanes;
constexpr int thread_rows = tile_rows / (threads / lanes);  // rows that a thread shares
constexpr int chunks = dim / (width * lanes);               // of a row, that a lane has

struct alignas(4 * width) Chunk {
  float x[width];
};

struct alignas(2 * halves) Halves {
  __half x[halves];
};

/// Rows are padded where lanes that read at once would share banks. Weights are exchanged in blocks of eight columns,
/// by xor with the row's group of lanes.
struct Tiles {
  float kv[tile_keys][dim + width], q[tile_rows][dim + (width == 1)], p[tile_rows][tile_keys];
};
static_assert(sizeof(Tiles) <= shared_bytes(dim));

__device__ inline Chunk load(const float *p) {
  return *reinterpret_cast<const Chunk *>(p);
}

/// n rows of f16, the first at `from`; zeros from row `exist` on.
template <int Stride>
__device__ inline void load_tile(float (*to)[Stride], const char *from, int64_t stride, int n, int exist) {
#pragma unroll 4
  for (int i = threadIdx.x; i < n * dim / halves; i += threads) {
    const int r = i / (dim / halves), d = i % (dim / halves) * halves;
    Halves read = {};
    if (r < exist) read = *reinterpret_cast<const Halves *>(from + r * stride + d * 2);
#pragma unroll
    for (int at = 0; at < halves; at += width) {
      Chunk chunk;
#pragma unroll
      for (int n = 0; n < width; ++n) chunk.x[n] = __half2float(read.x[at + n]);
      *reinterpret_cast<Chunk *>(&to[r][d + at]) = chunk;
    }
  }
}

extern "C" __global__ void __launch_bounds__(threads, 2)
    fa_forward_split(const __grid_constant__ fa::kernels::Params p) {
  extern __shared__ __align__(16) char memory[];
  Tiles &tiles = *reinterpret_cast<Tiles *>(memory);
  const WorkTile w = get_initial_work_tile(p, tile_rows);
  if (w.rows == 0) return;
  const int lane = threadIdx.x % lanes, first = threadIdx.x / lanes * thread_rows, end = w.sequence.keys;
  const int exchange = threadIdx.x / lanes % 4 * lanes;
  load_tile(tiles.q, q_row(p, w.sequence, row_at(p, w, w.first_row)), p.q.stride[1], tile_rows, w.rows - w.first_row);
  Softmax softmax[thread_rows];
  float o[thread_rows][chunks][width] = {};

  for (int j = 0; j < end; j += tile_keys) {
    load_tile(tiles.kv, key_row(p, p.k, w.sequence, j, w.kv_head), p.k.stride[1], tile_keys, end - j);
    __syncthreads();
    float s[thread_rows][columns] = {};
#pragma unroll(8 / width)
    for (int d = 0; d < dim; d += width) {
      Chunk q[thread_rows];
#pragma unroll
      for (int i = 0; i < thread_rows; ++i) q[i] = load(&tiles.q[first + i][d]);
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        const Chunk k = load(&tiles.kv[lane + c * lanes][d]);
#pragma unroll
        for (int i = 0; i < thread_rows; ++i)
#pragma unroll
          for (int n = 0; n < width; ++n) s[i][c] += q[i].x[n] * k.x[n];
      }
    }
#pragma unroll
    for (int i = 0; i < thread_rows; ++i) {
      float max = softmax[i].max, sum = 0;
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        s[i][c] = j + lane + c * lanes < end ? s[i][c] * (p.scale * log2_e) : -infinity;
        max = fmaxf(max, s[i][c]);
      }
      max = max_over_lanes<lanes>(max);
      const float rescale = exp2f(softmax[i].max - max);
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        const float weight = exp2f(s[i][c] - max);
        tiles.p[first + i][(lane + c * lanes) ^ exchange] = weight;
        sum += weight;
      }
      softmax[i] = {max, softmax[i].sum * rescale + sum_over_lanes<lanes>(sum)};
#pragma unroll
      for (int c = 0; c < chunks; ++c)
#pragma unroll
        for (float &x : o[i][c]) x *= rescale;
    }
    __syncthreads();
    load_tile(tiles.kv, key_row(p, p.v, w.sequence, j, w.kv_head), p.v.stride[1], tile_keys, end - j);
    __syncthreads();
#pragma unroll 1
    for (int e = 0; e < tile_keys; e += width) {
      Chunk weight[thread_rows];
#pragma unroll
      for (int i = 0; i < thread_rows; ++i) weight[i] = load(&tiles.p[first + i][e ^ exchange]);
#pragma unroll
      for (int n = 0; n < width; ++n) {
#pragma unroll
        for (int c = 0; c < chunks; ++c) {
          const Chunk v = load(&tiles.kv[e + n][(lane + c * lanes) * width]);
#pragma unroll
          for (int i = 0; i < thread_rows; ++i)
#pragma unroll
            for (int m = 0; m < width; ++m) o[i][c][m] += weight[i].x[n] * v.x[m];
        }
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < thread_rows; ++i) {
    if (w.first_row + first + i >= w.rows) break;
    const Row row = row_at(p, w, w.first_row + first + i);
    const float factor = finish_row(p, w.sequence, row, softmax[i], sink_of(p, w.sequence, row), lane == 0);
    char *out = out_row(p, w.sequence, row);
#pragma unroll
    for (int c = 0; c < chunks; ++c)
#pragma unroll
      for (int n = 0; n < width; ++n)
        store_element(out + ((lane + c * lanes) * width + n) * p.out.stride[3], p.out_dtype, o[i][c][n] * factor);
  }
}

}  // namespace fa::kernels::simt
