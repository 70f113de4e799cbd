// fa_merge on the CPU: its rows in the order of memory, divided among threads.
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
    inner_index_ = first % inner_;
    outer_index_ = first / inner_ % outer_;
    batch_ = first / inner_ / outer_;
  }

  MergeRow next() {
    const MergeRow row =
        by_query_ ? MergeRow{batch_, outer_index_, inner_index_} : MergeRow{batch_, inner_index_, outer_index_};
    if (++inner_index_ == inner_) inner_index_ = 0, ++outer_index_;
    if (outer_index_ == outer_) outer_index_ = 0, ++batch_;
    return row;
  }

 private:
  static int64_t step(int64_t stride) { return stride < 0 ? -stride : stride; }

  bool by_query_;
  int64_t inner_, outer_;
  int64_t inner_index_, outer_index_, batch_;
};

}  // namespace

/// Runs on up to this many threads.
void run_merge(const MergeCall &call, const IsaKernels &kernels, int64_t threads);

}  // namespace fa::cpu
