#include "cuda/rotated_forward.h"

#include "core/dtype.h"

namespace fa::cuda {

RotatedForward::RotatedForward(const ForwardCall &call)
    : call_(call), of_results_(*call.attention), of_inner_(*call.attention), inner_(call) {
  const Attention &a = *call.attention;
  of_results_.head_dim = a.head_dim_v, of_results_.head_dim_rope = 0, of_results_.hadamard_k = a.hadamard_v;
  if (rotates_results()) of_inner_.out_dtype = FA_F32;  // out is rounded once
  q_ = rows_of(a.q_dtype, a.head_dim);
  out_ = rows_of(FA_F32, a.head_dim_v);
  inner_.attention = &of_inner_;
  queries_ = rotation_of(a);
  results_ = rotation_of(of_results_);
}

Count RotatedForward::bytes() const {
  constexpr int alignment = 256;
  Count bytes = 0;
  if (rotates_queries()) bytes = rounded_up(bytes_of(q_), alignment);
  if (rotates_results()) bytes = bytes + rounded_up(bytes_of(out_), alignment);
  return bytes;
}

void RotatedForward::bind(char *workspace) {
  const auto own = static_cast<size_t>(bytes().value());
  q_.data = workspace;
  out_.data = workspace + own - (rotates_results() ? rounded_up(bytes_of(out_), 256).value() : 0);
  if (rotates_queries()) inner_.q = q_;
  if (rotates_results()) inner_.out = out_;
  if (call_.workspace != nullptr) {
    inner_.workspace = static_cast<char *>(call_.workspace) + own;
    inner_.workspace_size = call_.workspace_size - own;
  }
  queries_.q = call_.q, queries_.q_out = q_;
  results_.q = out_, results_.q_out = call_.out;
}

View RotatedForward::rows_of(fa_dtype dtype, int64_t dim) const {
  const int64_t element = dtype_bytes(dtype), head = dim * element, row = call_.heads_q * head;
  View view;
  view.dtype = dtype;
  view.stride[0] = call_.rows_q * row, view.stride[1] = row, view.stride[2] = head, view.stride[3] = element;
  return view;
}

Count RotatedForward::bytes_of(const View &rows) const {
  return Count(call_.cu_seqlens_q != nullptr ? 1 : call_.batch) * call_.rows_q * call_.heads_q * rows.stride[2];
}

AppendCall RotatedForward::rotation_of(const Attention &attention) const {
  AppendCall rotation;
  rotation.attention = &attention;
  rotation.caller = call_.caller;
  rotation.stream = call_.stream;
  rotation.batch = call_.batch;
  rotation.heads_q = call_.heads_q, rotation.heads_kv = call_.heads_kv;
  rotation.rows_new = rotation.rows_q = call_.rows_q;
  rotation.max_seqlen_new = call_.max_seqlen_q;
  rotation.cu_seqlens_new = call_.cu_seqlens_q;
  rotation.seqused_new = call_.seqused_q;
  return rotation;
}

}  // namespace fa::cuda
