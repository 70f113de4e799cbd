// A forward call on a rotated cache: the append kernel rotates queries into the workspace, and results, which come
// there in f32, back to where the caller wants them. It leaves out the rows that no sequence uses.
#pragma once

#include "core/call.h"
#include "core/count.h"

namespace fa::cuda {

class RotatedForward {
 public:
  /// The call must outlive this.
  explicit RotatedForward(const ForwardCall &call);

  /// Bytes of workspace in front of the attention's own.
  Count bytes() const;

  /// Points the parts to a workspace of that size.
  void bind(char *workspace);

  bool rotates_queries() const { return call_.attention->hadamard_k > 1; }
  bool rotates_results() const { return call_.attention->hadamard_v > 1; }

  /// The three calls, in their order.
  const AppendCall &queries() const { return queries_; }
  const ForwardCall &attention() const { return inner_; }
  const AppendCall &results() const { return results_; }

 private:
  /// The workspace of rows of q, or of out.
  View rows_of(fa_dtype dtype, int64_t dim) const;
  Count bytes_of(const View &rows) const;
  AppendCall rotation_of(const Attention &attention) const;

  const ForwardCall &call_;
  Attention of_results_, of_inner_;
  View q_, out_;  // in the workspace
  ForwardCall inner_;
  AppendCall queries_, results_;
};

}  // namespace fa::cuda
