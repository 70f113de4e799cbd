#include "cuda/merge_plan.h"

#include <cstdlib>

#include "common/row_layout.h"
#include "core/dtype.h"
#include "cuda/inputs.h"
#include "merge/merge/tiles.h"

namespace fa::cuda {
namespace {

static_assert(kernels::max_parts == FA_MAX_PARTS);

kernels::MergePart part_of(const View &out, const View &lse) {
  return {out.data,
          {out.stride[0], out.stride[1], out.stride[2], out.stride[3]},
          lse.data,
          {lse.stride[0], lse.stride[1], lse.stride[2]},
          out.dtype};
}

/// Whether any four elements of a row, from a multiple of four on, can be loaded at once.
bool has_quads(const View &out, int64_t dim) {
  const int64_t element = dtype_bytes(out.dtype), step = dim > 1 ? out.stride[3] : element;
  const int64_t places = reinterpret_cast<intptr_t>(out.data) | out.stride[0] | out.stride[1] | out.stride[2];
  return step == element && dim % 4 == 0 && places % (4 * element) == 0;
}

int32_t one_dtype(const MergeCall &call) {
  for (int p = 0; p < call.num_parts; p++)
    if (call.outs[p].dtype != call.outs[0].dtype || !has_quads(call.outs[p], call.attention->head_dim_v)) return 0;
  return call.outs[0].dtype;
}

}  // namespace

MergePlan plan_of(const MergeCall &call, const KernelSet &kernels, const Device &) {
  MergePlan plan;
  kernels::MergeParams &s = plan.params;
  static_cast<kernels::Attention &>(s) = attention_of(*call.attention);
  s.out = view_of(call.out);
  s.lse = view_of(call.lse);
  s.mask = view_of(call.mask);
  s.batch = static_cast<int32_t>(call.batch);
  s.rows_q = static_cast<int32_t>(call.rows_q);
  s.heads_q = static_cast<int32_t>(call.heads_q);
  for (int p = 0; p < call.num_parts; p++) s.part[p] = part_of(call.outs[p], call.lses[p]);
  s.num_parts = call.num_parts;
  s.base_2 = call.base_2;
  s.one_dtype = one_dtype(call);
  s.by_query = std::abs(call.out.stride[2]) <= std::abs(call.out.stride[1]);
  s.inner = s.by_query ? s.heads_q : s.rows_q, s.outer = s.by_query ? s.rows_q : s.heads_q;
  s.inverse_inner = 1.0 / s.inner, s.inverse_outer = 1.0 / s.outer;

  plan.add_only_kernel(kernels, ceil_div(call.batch * call.rows_q * call.heads_q, kernels::merge::rows(s.head_dim_v)));
  return plan;
}

Count workspace_bound(const MergeCall &, const KernelSet &, const Device &) {
  return 0;
}

std::string log_line(const MergePlan &plan) {
  const KernelLaunch &kernel = plan.loop[0].kernels[0];
  return std::string("merge: ") + kernel.image->name + " " + name_of(kernel.entry);
}

}  // namespace fa::cuda
