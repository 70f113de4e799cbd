#include "cuda/tensor_maps.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/dtype.h"
#include "cuda/device.h"

namespace fa::cuda {
namespace {

/// Rows after which a swizzle repeats.
constexpr int min_box = 8;

/// A tensor as a map has it: elements first, then dimensions of a View in some order. Rows beyond its extents become
/// zeros.
struct Layout {
  fa_dtype dtype;
  int64_t columns;
  struct Dimension {
    int of_view;
    int64_t extent;
    int64_t box;
  } dimension[3];
};

/// The driver's names of the element types that kernels copy in boxes.
struct BoxType {
  fa_dtype dtype;
  int of_driver;
};
constexpr BoxType box_types[] = {{FA_F16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16},
                                 {FA_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16}};

/// nullptr for other types.
const BoxType *box_type_of(fa_dtype dtype) {
  const auto *type = std::ranges::find(box_types, dtype, &BoxType::dtype);
  return type != std::end(box_types) ? type : nullptr;
}

/// The requirements of cuTensorMapEncodeTiled in the driver's documentation, which NVIDIA's own libraries keep to. It
/// says nothing about a dimension that is repeated (stride 0) or runs backwards.
const char *view_rejection(const View &view, const Layout &layout) {
  constexpr int64_t unit = 16, max_stride = int64_t{1} << 40;
  if (box_type_of(layout.dtype) == nullptr) return "q, k or v of a type that is not copied in boxes";
  if (reinterpret_cast<uintptr_t>(view.data) % unit != 0 || view.stride[3] != dtype_bytes(layout.dtype))
    return "q, k or v whose rows are not whole multiples of 16 bytes";
  for (const Layout::Dimension &d : layout.dimension) {
    if (d.extent <= 1) continue;
    const int64_t stride = view.stride[d.of_view];
    if (stride <= 0) return "q, k or v with a stride that is 0 or negative";
    if (stride % unit != 0) return "q, k or v whose rows are not whole multiples of 16 bytes";
    if (stride >= max_stride) return "q, k or v with a stride of 2^40 bytes or more";
  }
  return nullptr;
}

/// Why rows of keys and values on pages cannot be copied one by one, in chunks of 16 bytes.
const char *gather_rejection(const kernels::Params &p) {
  const int64_t element = dtype_bytes(p.kv_dtype);
  if (p.stride_unit == 0) return "rows of keys or values too far apart for 32 bits";
  for (const kernels::View *view : {&p.k, &p.v}) {
    const int64_t all = view->stride[0] | view->stride[1] | view->stride[2];
    if (reinterpret_cast<uintptr_t>(view->data) % 16 != 0 || all % 16 != 0 || view->stride[3] != element)
      return "q, k or v whose rows are not whole multiples of 16 bytes";
  }
  return (p.head_dim | p.head_dim_v) * element % 16 == 0 ? nullptr : "rows on pages of no whole chunks of 16 bytes";
}

/// How the tensors of a call are cut into the boxes of a tile.
struct Boxes {
  Layout q, k, v, out;
  int64_t rows_of_keys;  // of a box of keys or values; 0: no whole boxes of them
};

Boxes boxes_of(const Inputs &p, const kernels::TileConfig &tile, int64_t packed) {
  enum { batch, rows, heads };  // of a View
  const Attention &a = *p.attention;
  const int64_t batch_q = p.cu_seqlens_q != nullptr ? 1 : p.batch;
  // A box has as many rows as divide both a page and the tile, and so is on one page.
  const bool paged = p.page_size > 0;
  const int64_t box = paged ? std::gcd(p.page_size, int64_t{tile.box_keys}) : tile.box_keys;
  const bool in_boxes = box % min_box == 0 && (!paged || p.leftpad_k == nullptr);
  const auto keys = [&](int64_t columns) {
    return Layout{a.kv_dtype,
                  columns,
                  {{rows, paged ? p.page_size : p.rows_k, box}, {heads, p.heads_kv, 1}, {batch, p.batch_k, 1}}};
  };
  return {{a.q_dtype,
           a.head_dim,
           {{heads, p.heads_q, packed}, {rows, p.rows_q, tile.box_queries / packed}, {batch, batch_q, 1}}},
          keys(a.head_dim),
          keys(a.head_dim_v),
          {a.q_dtype, a.head_dim_v, {{heads, p.heads_q, 1}, {rows, p.rows_q, tile.box_out}, {batch, batch_q, 1}}},
          in_boxes ? box : 0};
}

/// False where the driver refuses.
bool encode(const View &view, const Layout &layout, int columns, kernels::TensorMap *map) {
  const auto encode_tiled = machine().driver.cuTensorMapEncodeTiled;
  if (encode_tiled == nullptr) return false;
  uint64_t extents[4] = {static_cast<uint64_t>(layout.columns)}, strides[3];
  uint32_t box[4] = {static_cast<uint32_t>(columns)};
  for (int i = 0; i < 3; i++) {
    const Layout::Dimension &d = layout.dimension[i];
    extents[i + 1] = static_cast<uint64_t>(d.extent);
    box[i + 1] = static_cast<uint32_t>(d.box);
    // The stride of a dimension with one entry is never used, and may be anything.
    strides[i] = static_cast<uint64_t>(d.extent > 1 ? view.stride[d.of_view]
                                                    : (layout.columns * dtype_bytes(layout.dtype) + 15) / 16 * 16);
  }
  const uint32_t steps[] = {1, 1, 1, 1};
  return encode_tiled(map, box_type_of(layout.dtype)->of_driver, 4, view.data, extents, strides, box, steps,
                      CU_TENSOR_MAP_INTERLEAVE_NONE,
                      columns == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
                      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace

const char *unmappable_reason(const Inputs &p, const kernels::Params &params, const kernels::TileConfig &tile,
                              int64_t packed) {
  if (p.rows_k == 0 || p.batch_k == 0) return "no keys";
  if (packed > tile.box_queries) return "more heads to a tile than a box has rows";
  const Boxes boxes = boxes_of(p, tile, packed);
  if (boxes.rows_of_keys == 0) {
    if (!tile.paged_gather) return "pages that are no multiple of 8 keys, or padded on the left";
    if (const char *why = gather_rejection(params)) return why;
    return view_rejection(p.q, boxes.q);
  }
  for (const auto &[view, layout] : {std::pair(&p.q, &boxes.q), std::pair(&p.k, &boxes.k), std::pair(&p.v, &boxes.v)})
    if (const char *why = view_rejection(*view, *layout)) return why;
  return nullptr;
}

const char *encode_maps(const Inputs &p, const View &out, const kernels::TileConfig &tile, int64_t packed,
                        kernels::TensorMaps *maps) {
  const Boxes boxes = boxes_of(p, tile, packed);
  maps->rows_of_keys = static_cast<int32_t>(boxes.rows_of_keys);
  const bool encoded = encode(p.q, boxes.q, tile.box_columns, &maps->q) &&
                       (boxes.rows_of_keys == 0 || (encode(p.k, boxes.k, tile.box_columns, &maps->k) &&
                                                    encode(p.v, boxes.v, tile.box_columns, &maps->v)));
  if (!encoded) return "q, k or v of which the driver makes no tensor map";
  // Without a map of out its rows are written one by one.
  const bool out_in_boxes = tile.box_out > 0 && out.dtype == boxes.out.dtype &&
                            view_rejection(out, boxes.out) == nullptr &&
                            encode(out, boxes.out, tile.box_columns, &maps->out);
  maps->rows_of_out = out_in_boxes ? tile.box_out : 0;
  return nullptr;
}

}  // namespace fa::cuda
