// fa_merge on the CPU: its rows in the order of memory, shared out among threads.
#pragma once

#include "core/call.h"

namespace fa::cpu {

struct IsaKernels;

struct MergeRow {
  int64_t batch, query, head;
};

namespace {  // kernels of each ISA compile it

/// The rows of a call, numbered as they are in out: heads of a query, or queries of a head.
class MergeRows {
 public:
  MergeRows(const MergeCall &call, int64_t first)
      : by_query_(step(call.out.stride[2]) <= step(call.out.stride[1])),
        inner_(by_query_ ? call.heads_q : call.rows_q),
        outer_(by_query_ ? call.rows_q : call.heads_q) {
    in_ = first % inner_;
    out_ = first / inner_ % outer_;
    batch_ = first / inner_ / outer_;
  }

  MergeRow next() {
    const MergeRow row = by_query_ ? MergeRow{batch_, out_, in_} : MergeRow{batch_, in_, out_};
    if (++in_ == inner_) in_ = 0, ++out_;
    if (out_ == outer_) out_ = 0, ++batch_;
    return row;
  }

 private:
  static int64_t step(int64_t stride) { return stride < 0 ? -stride : stride; }

  bool by_query_;
  int64_t inner_, outer_;
  int64_t in_, out_, batch_;
};

}  // namespace

/// On up to this many threads.
void run_merge(const MergeCall &call, const IsaKernels &kernels, int32_t threads);

}  // namespace fa::cpu
