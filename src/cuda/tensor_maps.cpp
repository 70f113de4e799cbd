#include "cuda/tensor_maps.h"

#include "cuda/device.h"

namespace fa::cuda {
namespace {

/// A tensor as a map has it: elements first. Rows beyond its extents become zeros.
struct Extents {
  int64_t columns, rows, heads, batch;
};

/// What the driver's documentation of cuTensorMapEncodeTiled asks for, and NVIDIA's own libraries keep to: where a
/// dimension is repeated (stride 0) or runs backwards, nothing is said.
const char *why_not(const View &view, const Extents &e) {
  constexpr int64_t unit = 16, most_stride = int64_t{1} << 40;
  if (reinterpret_cast<uintptr_t>(view.data) % unit != 0 || view.stride[3] != 2)
    return "q, k or v whose rows are not whole multiples of 16 bytes";
  const int64_t extents[] = {e.batch, e.rows, e.heads};
  for (int i = 0; i < 3; i++) {
    if (extents[i] <= 1) continue;
    if (view.stride[i] <= 0) return "q, k or v with a stride that is 0 or negative";
    if (view.stride[i] % unit != 0) return "q, k or v whose rows are not whole multiples of 16 bytes";
    if (view.stride[i] >= most_stride) return "q, k or v with a stride of 2^40 bytes or more";
  }
  return nullptr;
}

const char *encode(const View &view, fa_dtype dtype, const Extents &e, int box_rows, kernels::TensorMap *map) {
  if (const char *why = why_not(view, e)) return why;
  const auto encode_tiled = machine().driver.cuTensorMapEncodeTiled;
  if (encode_tiled == nullptr) return "a driver that is not loaded";
  const uint64_t extents[] = {static_cast<uint64_t>(e.columns), static_cast<uint64_t>(e.rows),
                              static_cast<uint64_t>(e.heads), static_cast<uint64_t>(e.batch)};
  // That of a dimension with one entry is never used, and may be anything in the tensor.
  const auto stride = [&](int i, int64_t extent) {
    return static_cast<uint64_t>(extent > 1 ? view.stride[i] : (e.columns * 2 + 15) / 16 * 16);
  };
  const uint64_t strides[] = {stride(1, e.rows), stride(2, e.heads), stride(0, e.batch)};
  const uint32_t box[] = {kernels::box_columns, static_cast<uint32_t>(box_rows), 1, 1};
  const uint32_t steps[] = {1, 1, 1, 1};
  const int type = dtype == FA_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const CUresult result =
      encode_tiled(map, type, 4, view.data, extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                   CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? nullptr : "q, k or v of which the driver makes no tensor map";
}

}  // namespace

const char *encode_maps(const Problem &p, const kernels::Tile &tile, kernels::TensorMaps *maps) {
  const Attention &a = *p.attention;
  const int64_t batch_q = p.cu_seqlens_q != nullptr ? 1 : p.batch;
  if (p.rows_k == 0 || p.batch_k == 0) return "no keys";
  const Extents q = {a.head_dim, p.rows_q, p.heads_q, batch_q}, k = {a.head_dim, p.rows_k, p.heads_kv, p.batch_k},
                v = {a.head_dim_v, p.rows_k, p.heads_kv, p.batch_k};
  if (const char *why = encode(p.q, a.q_dtype, q, tile.box_queries, &maps->q)) return why;
  if (const char *why = encode(p.k, a.kv_dtype, k, tile.box_keys, &maps->k)) return why;
  return encode(p.v, a.kv_dtype, v, tile.box_keys, &maps->v);
}

}  // namespace fa::cuda
