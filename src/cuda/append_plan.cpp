#include "cuda/append_plan.h"

#include <algorithm>

#include "append/append/tiles.h"
#include "core/dtype.h"
#include "core/status.h"
#include "cuda/derive.h"
#include "cuda/inputs.h"

namespace fa::cuda {
namespace {

constexpr int vector_width = 8, vector_bytes = 16;

/// Whether vectors of a tensor's rows are aligned, and their elements adjacent.
bool has_vectors(const View &view, int64_t dim) {
  const int64_t places = reinterpret_cast<intptr_t>(view.data) | view.stride[0] | view.stride[1] | view.stride[2];
  return (dim == 1 || view.stride[3] == dtype_bytes(view.dtype)) && places % vector_bytes == 0;
}

/// rows: tokens, of all sequences; pairs: of a row.
kernels::RowStream stream_of(const View &from, const View &to, int64_t rows, int64_t heads, int64_t dim, int64_t pairs,
                             bool at_tail) {
  kernels::RowStream s = {};
  if (!from || !to || rows == 0) return s;
  const int64_t first = at_tail ? dim - 2 * pairs : 0;
  const bool whole = dim % vector_width == 0 && pairs % vector_width == 0 && first % vector_width == 0;
  s.from = view_of(from);
  s.to = view_of(to);
  s.from_dtype = from.dtype;
  s.to_dtype = to.dtype;
  s.heads = static_cast<int32_t>(heads);
  s.first = static_cast<int32_t>(pairs > 0 ? first : 0);
  s.pairs = static_cast<int32_t>(pairs);
  s.width = whole && has_vectors(from, dim) && has_vectors(to, dim) ? vector_width : 1;
  s.items = static_cast<int32_t>((dim - pairs) / s.width);
  s.tile_rows = kernels::append::tile_rows(s.items);
  s.by_items = divisor_of(s.items);
  s.by_heads = divisor_of(heads);
  s.tiles = ceil_div(rows * heads, s.tile_rows);
  return s;
}

kernels::AppendParams params_of(const AppendCall &c) {
  const Attention &a = *c.attention;
  kernels::AppendParams s = {};
  static_cast<kernels::Attention &>(s) = attention_of(a);
  const int64_t entries = c.cu_seqlens_new != nullptr ? 1 : c.batch;
  s.stream[kernels::k_stream] =
      stream_of(c.k, c.k_cache, entries * c.rows_new, c.heads_kv, a.head_dim, c.rotary_pairs, c.rotates_tail);
  s.stream[kernels::v_stream] = stream_of(c.v, c.v_cache, entries * c.rows_new, c.heads_kv, a.head_dim_v, 0, false);
  s.stream[kernels::q_stream] =
      stream_of(c.q, c.q_out, entries * c.rows_q, c.heads_q, a.head_dim, c.rotary_pairs, c.rotates_tail);
  s.rotary_cos = view_of(c.rotary_cos);
  s.rotary_sin = view_of(c.rotary_sin);
  s.positions = view_of(c.positions);
  s.q_positions = view_of(c.q_positions);
  s.slot_mapping = view_of(c.slot_mapping);
  s.block_table = view_of(c.block_table);
  s.cu_seqlens_new = c.cu_seqlens_new;
  s.seqused_new = c.seqused_new;
  s.cache_seqlens = c.cache_seqlens;
  s.leftpad_k = c.leftpad_k;
  s.kv_batch_idx = c.kv_batch_idx;
  s.batch = static_cast<int32_t>(c.batch);
  s.rows_new = static_cast<int32_t>(c.rows_new);
  s.rows_q = static_cast<int32_t>(c.rows_q);
  s.page_size = static_cast<int32_t>(c.page_size);
  s.by_page_size = divisor_of(c.page_size);
  s.cos_dtype = c.rotary_cos.dtype;
  s.sin_dtype = c.rotary_sin.dtype;
  s.table_vectors = has_vectors(c.rotary_cos, c.rotary_pairs) && has_vectors(c.rotary_sin, c.rotary_pairs);
  s.interleaved = c.interleaved;
  const auto is_wide = [](const View &view) { return view && dtype_bytes(view.dtype) == sizeof(int64_t); };
  s.positions_wide = is_wide(c.positions);
  s.q_positions_wide = is_wide(c.q_positions);
  s.slots_wide = is_wide(c.slot_mapping);
  return s;
}

}  // namespace

AppendPlan plan_of(const AppendCall &call, const KernelSet &kernels, const Device &) {
  AppendPlan plan;
  for (const View &cache : {call.k_cache, call.v_cache})
    if (is_quantised(cache.dtype)) {
      plan.status = fail(FA_ERROR_UNSUPPORTED,
                         "fa_append on a GPU does not write %s yet; expected a cache in memory of the host, or of FA_F32, "
                         "FA_F16 or FA_BF16",
                         dtype_name(cache.dtype));
      return plan;
    }
  plan.params = params_of(call);
  LaunchLoop &loop = plan.loop[plan.loop_count++];
  loop.schedule.num_splits = loop.schedule.heads_per_tile = 1;
  for (const kernels::RowStream &stream : plan.params.stream) loop.tiles += stream.tiles;
  loop.tiles_per_launch = std::min(loop.tiles, most_blocks);
  KernelLaunch &kernel = loop.kernels[loop.kernel_count++];
  kernel.image = *kernels.begin();
  kernel.entry = kernels::Entry::combine;
  kernel.tile = kernel.image->tile_of(kernel.entry);
  return plan;
}

Count workspace_bound(const AppendCall &, const KernelSet &, const Device &) {
  return 0;
}

std::string log_line(const AppendPlan &plan) {
  const KernelLaunch &kernel = plan.loop[0].kernels[0];
  return std::string("append: ") + kernel.image->name + " " + name_of(kernel.entry);
}

}  // namespace fa::cuda
