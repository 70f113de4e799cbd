// Attention by the definition, a row a thread. Blocks whose cluster is not as probe/tiles.h has it write nothing.
#include "common/build.cuh"
#include "common/element.cuh"
#include "collective/epilogue.cuh"
#include "probe/tiles.h"

namespace fa::kernels::probe {

__device__ inline uint32_t blocks_of_cluster() {
  uint32_t n;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  return n;
}

__device__ inline void wait_for_cluster() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

__device__ inline float product(const Params &p, const char *q, const char *k) {
  float sum = 0;
  for (int32_t i = 0; i < p.head_dim; i++)
    sum += load_element(q + i * p.q.stride[3], p.q_dtype) * load_element(k + i * p.k.stride[3], p.kv_dtype);
  return sum * p.scale;
}

__device__ inline void work_on(const Params &p, const WorkTile &w, int32_t index) {
  const Row row = row_at(p, w, index);
  const Interval keys = attended(p, w.sequence, row.query);
  Softmax softmax;
  for (int32_t key = keys.low; key < keys.high; key++)
    softmax.max =
        fmaxf(softmax.max, product(p, q_row(p, w.sequence, row), key_row(p, p.k, w.sequence, key, w.kv_head)));
  float sums[FA_DIM] = {};
  for (int32_t key = keys.low; key < keys.high; key++) {
    const float x = product(p, q_row(p, w.sequence, row), key_row(p, p.k, w.sequence, key, w.kv_head));
    const float weight = weight_of(x - finite_max(softmax.max));
    const char *v = key_row(p, p.v, w.sequence, key, w.kv_head);
    softmax.sum += weight;
#pragma unroll
    for (int32_t i = 0; i < FA_DIM; i++)
      if (i < p.head_dim_v) sums[i] += weight * load_element(v + i * p.v.stride[3], p.kv_dtype);
  }
  const float factor = finish_row(p, w.sequence, row, softmax, sink_of(p, w.sequence, row), true);
#pragma unroll
  for (int32_t i = 0; i < FA_DIM; i++)
    if (i < p.head_dim_v)
      store_element(out_row(p, w.sequence, row) + i * p.out.stride[3], p.out_dtype, sums[i] * factor);
}

}  // namespace fa::kernels::probe

extern "C" __global__ void fa_forward_plain(const __grid_constant__ fa::kernels::Params p) {
  using namespace fa::kernels;
  if (probe::blocks_of_cluster() != probe::cluster) return;
  for_each_work_tile<probe::cluster>(p, probe::rows, [&](const WorkTile &w) {
    const int32_t index = w.first_row + int32_t(threadIdx.x);
    if (index < w.rows) probe::work_on(p, w, index);
    probe::wait_for_cluster();
  });
}
