#include "cuda/inputs.h"

#include <algorithm>
#include <cstdlib>

#include "cuda/derive.h"

namespace fa::cuda {
namespace {

/// Rows of keys and values in 32 bits: in units of the largest power of two that all of them are multiples of apart.
void set_row_steps(const Inputs &p, kernels::Params *s) {
  const int64_t rows = p.page_size > 0 ? p.page_size : p.rows_k;
  const auto step = [](int64_t stride, int64_t count) { return count > 1 ? stride : 0; };  // others are never taken
  uint64_t bits = uint64_t{1} << 30;
  for (const View *view : {&p.k, &p.v})
    bits |= static_cast<uint64_t>(step(view->stride[0], p.batch_k) | step(view->stride[1], rows));
  const auto unit = static_cast<int64_t>(bits & -bits);
  bool fit = p.block_table.stride[1] == static_cast<int32_t>(p.block_table.stride[1]);
  const auto steps_of = [&](const View &view) {
    const int64_t entry = step(view.stride[0], p.batch_k) / unit, row = step(view.stride[1], rows) / unit;
    const Count farthest = Count(std::abs(entry)) * (p.batch_k - 1) + Count(std::abs(row)) * (rows - 1);
    fit = fit && farthest <= INT32_MAX;
    return kernels::RowSteps{static_cast<int32_t>(entry), static_cast<int32_t>(row)};
  };
  s->k_steps = steps_of(p.k), s->v_steps = steps_of(p.v);
  s->stride_unit = fit ? static_cast<int32_t>(unit) : 0;
  s->table_step = fit ? static_cast<int32_t>(p.block_table.stride[1]) : 0;
}

}  // namespace

Tiles tiles_of(bool packed, int64_t batch, Count all_rows, int64_t longest, int64_t rows) {
  const int64_t each = ceil_div(longest, rows);
  if (!packed) return {each, 0};
  const Count evenly = Count(each) * batch, by_rows = all_rows / rows + batch;
  return evenly <= by_rows ? Tiles{evenly, each} : Tiles{by_rows, 0};
}

kernels::Attention attention_of(const Attention &a) {
  kernels::Attention s = {};
  s.q_dtype = a.q_dtype;
  s.kv_dtype = a.kv_dtype;
  s.out_dtype = a.out_dtype;
  s.head_dim = static_cast<int32_t>(a.head_dim);
  s.head_dim_v = static_cast<int32_t>(a.head_dim_v);
  s.causal = a.mask != FA_MASK_NONE;
  s.top_left = a.mask == FA_MASK_CAUSAL_TOP_LEFT;
  s.window_left = a.window_left;
  s.window_right = a.window_right;
  s.chunk = a.chunk;
  s.scale = a.scale;
  s.softcap = a.softcap;
  s.bias_before_softcap = a.bias_before_softcap;
  return s;
}

kernels::View view_of(const View &view) {
  return {view.data, {view.stride[0], view.stride[1], view.stride[2], view.stride[3]}};
}

void set_inputs(const Inputs &p, kernels::Params *s) {
  static_cast<kernels::Attention &>(*s) = attention_of(*p.attention);
#define FA_TENSOR(name, ...) s->name = view_of(p.name);
#define FA_ARRAY(name, ...) s->name = p.name;
  FA_INPUT_FIELDS(FA_TENSOR, FA_ARRAY, FA_NOTHING)
#undef FA_TENSOR
#undef FA_ARRAY

  s->bias_dtype = p.bias.dtype;
  s->batch = static_cast<int32_t>(p.batch);
  s->heads_q = static_cast<int32_t>(p.heads_q);
  s->heads_kv = static_cast<int32_t>(p.heads_kv);
  s->rows_q = static_cast<int32_t>(p.rows_q);
  s->rows_k = static_cast<int32_t>(p.rows_k);
  s->max_seqlen_q = static_cast<int32_t>(p.max_seqlen_q);
  s->max_seqlen_k = static_cast<int32_t>(p.max_seqlen_k);
  s->page_size = static_cast<int32_t>(p.page_size);
  set_row_steps(p, s);
  derive(s);
}

}  // namespace fa::cuda
