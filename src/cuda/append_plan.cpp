#include "cuda/append_plan.h"

#include <algorithm>
#include <cmath>

#include "append/append_quantised/tiles.h"
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

/// rows: of all sequences; pairs: that are rotated in each row.
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
  const bool to_vectors = is_quantised(to.dtype) || has_vectors(to, dim);  // codes: by way of shared memory
  s.width = whole && has_vectors(from, dim) && to_vectors ? vector_width : 1;
  s.items = static_cast<int32_t>((dim - pairs) / s.width);
  s.tile_rows = kernels::append::tile_rows(s.items);
  s.by_items = divisor_of(s.items);
  s.by_heads = divisor_of(heads);
  s.tiles = ceil_div(rows * heads, s.tile_rows);
  return s;
}

kernels::AppendParams params_of(const AppendCall &call) {
  const Attention &a = *call.attention;
  kernels::AppendParams s = {};
  static_cast<kernels::Attention &>(s) = attention_of(a);
  const int64_t entries = call.cu_seqlens_new != nullptr ? 1 : call.batch;
  s.stream[kernels::k_stream] = stream_of(call.k, call.k_cache, entries * call.rows_new, call.heads_kv, a.head_dim_k(),
                                          call.pairs_of_k(), call.rotates_tail);
  s.stream[kernels::v_stream] =
      stream_of(call.v, call.v_cache, entries * call.rows_new, call.heads_kv, a.head_dim_v, 0, false);
  s.stream[kernels::k_rope_stream] = stream_of(call.k_rope, call.k_rope_cache, entries * call.rows_new, call.heads_kv,
                                               a.head_dim_rope, call.pairs_of_k_rope(), call.rotates_tail);
  s.stream[kernels::q_stream] = stream_of(call.q, call.q_out, entries * call.rows_q, call.heads_q, a.head_dim,
                                          call.rotary_pairs, call.rotates_tail);
  s.rotary_cos = view_of(call.rotary_cos);
  s.rotary_sin = view_of(call.rotary_sin);
  s.positions = view_of(call.positions);
  s.q_positions = view_of(call.q_positions);
  s.slot_mapping = view_of(call.slot_mapping);
  s.block_table = view_of(call.block_table);
  s.cu_seqlens_new = call.cu_seqlens_new;
  s.seqused_new = call.seqused_new;
  s.cache_seqlens = call.cache_seqlens;
  s.leftpad_k = call.leftpad_k;
  s.kv_batch_idx = call.kv_batch_idx;
  s.batch = static_cast<int32_t>(call.batch);
  s.rows_new = static_cast<int32_t>(call.rows_new);
  s.rows_q = static_cast<int32_t>(call.rows_q);
  s.page_size = static_cast<int32_t>(call.page_size);
  s.by_page_size = divisor_of(call.page_size);
  s.cos_dtype = call.rotary_cos.dtype;
  s.sin_dtype = call.rotary_sin.dtype;
  s.table_vectors = has_vectors(call.rotary_cos, call.rotary_pairs) && has_vectors(call.rotary_sin, call.rotary_pairs);
  s.interleaved = call.interleaved;
  const auto is_wide = [](const View &view) { return view && dtype_bytes(view.dtype) == sizeof(int64_t); };
  s.positions_wide = is_wide(call.positions);
  s.q_positions_wide = is_wide(call.q_positions);
  s.slots_wide = is_wide(call.slot_mapping);
  return s;
}

/// A cache, the scales and zeros of its codes, and which elements of a row are rotated: the first ones, in blocks.
struct Codes {
  const View &cache, &scale, &zero;
  int64_t scale_channels, zero_channels, dim, rotated, block;
};

kernels::Factors factors_of(const View &view, int64_t channels) {
  return {view_of(view), view.dtype, static_cast<int32_t>(channels)};
}

/// The bytes of a store: the largest power of two at whose multiples all rows begin and end.
int32_t word_of(const View &cache, int64_t code_bytes) {
  if (!is_packed(cache.dtype) && cache.stride[3] != 1) return 1;
  const int64_t places = reinterpret_cast<intptr_t>(cache.data) | cache.stride[0] | cache.stride[1] | cache.stride[2];
  int32_t word = 8;
  while ((places | code_bytes) % word != 0) word /= 2;
  return word;
}

/// Makes a stream one of codes, or of rotated rows, which go through shared memory in f32.
void set_codes(const AppendCall &call, const Codes &codes, int64_t rows, kernels::RowStream *s,
               kernels::CodeStream *c) {
  using namespace kernels::append_quantised;
  const CodeKind kind = code_kind(codes.cache.dtype);
  if (s->tiles == 0 || (kind == CodeKind::none && codes.block == 1)) return;
  const bool has_factors = kind == CodeKind::integer || kind == CodeKind::floating;
  const int64_t scale_channels = codes.scale ? codes.scale_channels : codes.dim;
  const int64_t zero_channels = codes.zero ? codes.zero_channels : codes.dim;
  c->scale = factors_of(codes.scale, scale_channels);
  c->zero = factors_of(codes.zero, zero_channels);
  c->step = is_packed(codes.cache.dtype) ? 1 : codes.cache.stride[3];
  c->dtype = kind == CodeKind::none ? 0 : codes.cache.dtype;
  c->number_dtype = codes.cache.dtype;
  c->computed = call.computes_scales && has_factors;
  c->dim = static_cast<int32_t>(codes.dim);
  c->rotated = static_cast<int32_t>(codes.rotated);
  c->block = static_cast<int32_t>(codes.block);
  c->factor = static_cast<float>(1 / std::sqrt(static_cast<double>(codes.block)));
  c->scales = has_factors ? static_cast<int32_t>(codes.dim / scale_channels) : 0;
  c->zeros = has_factors ? static_cast<int32_t>(codes.dim / zero_channels) : 0;
  c->whole_groups = scale_channels % octet == 0 && zero_channels % octet == 0;
  c->lanes = lanes_of(c->dim);
  c->group_lanes = lanes_of(c->scale.channels);
  c->code_bytes = kind == CodeKind::none ? 0 : static_cast<int32_t>(row_bytes(codes.cache.dtype, codes.dim));
  c->word = word_of(codes.cache, c->code_bytes);
  c->by_scale_channels = divisor_of(scale_channels);
  c->by_zero_channels = divisor_of(zero_channels);
  set_memory(c);

  s->to.stride[3] = sizeof(float);
  s->to_dtype = FA_F32;
  s->tile_rows = threads / c->lanes;
  s->tiles = ceil_div(rows * s->heads, s->tile_rows);
}

/// The parameters of calls whose k or v is quantised or rotated.
void set_codes(const AppendCall &call, kernels::AppendCodesParams *s) {
  const Attention &a = *call.attention;
  const int64_t entries = call.cu_seqlens_new != nullptr ? 1 : call.batch, dim_k = a.head_dim_k();
  const auto set = [&](const Codes &codes, int64_t rows, kernels::AppendStream which) {
    set_codes(call, codes, entries * rows, &s->stream[which], &s->codes[which]);
  };
  const FactorChannels &channels = call.channels;
  set({call.k_cache, call.k_scale, call.k_zero, channels.k_scale, channels.k_zero, dim_k, dim_k, a.hadamard_k},
      call.rows_new, kernels::k_stream);
  set({call.v_cache, call.v_scale, call.v_zero, channels.v_scale, channels.v_zero, a.head_dim_v, a.head_dim_v,
       a.hadamard_v},
      call.rows_new, kernels::v_stream);
  const bool of_forward = call.q && call.rotary_pairs == 0;  // fa_append has no such q
  const View none;
  set({call.q_out, none, none, 0, 0, a.head_dim, dim_k, of_forward ? a.hadamard_k : 1}, call.rows_q, kernels::q_stream);
}

/// Shared memory of a block with rows of any stream.
int shared_bytes_of(const kernels::AppendCodesParams &p) {
  int bytes = 0;
  for (const kernels::CodeStream &c : p.codes)
    if (c.dim != 0) bytes = std::max(bytes, kernels::append_quantised::shared_bytes(c));
  return bytes;
}

}  // namespace

AppendPlan plan_of(const AppendCall &call, const KernelSet &kernels, const Device &) {
  AppendPlan plan;
  const bool has_codes = (*kernels.begin())->codes != nullptr;
  if (call.attention->rotates_cache() && !has_codes) {
    plan.status = fail(FA_ERROR_UNSUPPORTED,
                       "this build of libfa has no GPU kernel that rotates keys and values (FA_FLAG_HADAMARD_K, "
                       "FA_FLAG_HADAMARD_V); expected memory of the host, or a build with the image append_quantised "
                       "(FA_IMAGE_FILTER)");
    return plan;
  }
  for (const View &cache : {call.k_cache, call.v_cache})
    if (is_quantised(cache.dtype) && !has_codes) {
      plan.status = fail(
          FA_ERROR_UNSUPPORTED,
          "this build of libfa has no GPU kernel that writes %s; expected a cache in memory of the host, or a build "
          "with the image append_quantised (FA_IMAGE_FILTER)",
          dtype_name(cache.dtype));
      return plan;
    }
  static_cast<kernels::AppendParams &>(plan.params) = params_of(call);
  set_codes(call, &plan.params);
  int64_t tiles = 0;
  for (const kernels::RowStream &stream : plan.params.stream) tiles += stream.tiles;
  plan.add_only_kernel(kernels, tiles).tile.shared_bytes = shared_bytes_of(plan.params);
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
