#include "cpu/merge.h"

#include <algorithm>
#include <atomic>

#include "core/dtype.h"
#include "cpu/tasks.h"
#include "cpu/tile.h"

namespace fa::cpu {

namespace {

/// Bytes that a worker takes at a time, which it merges in some tens of microseconds. A call with fewer bytes ends
/// before another thread has woken.
constexpr int64_t bytes_at_a_time = 256 << 10;

struct Shared {
  const MergeCall &call;
  const IsaKernels &kernels;
  int64_t rows, rows_at_a_time;
  std::atomic<int64_t> next{0};
};

void run_worker(void *ctx, int64_t) {
  Shared &shared = *static_cast<Shared *>(ctx);
  for (;;) {
    const int64_t first = shared.next.fetch_add(shared.rows_at_a_time, std::memory_order_relaxed);
    if (first >= shared.rows) return;
    shared.kernels.merge_parts(shared.call, first, std::min(first + shared.rows_at_a_time, shared.rows));
  }
}

/// Bytes of a row of out and of all parts.
int64_t bytes_of_row(const MergeCall &call) {
  int64_t bytes = dtype_bytes(call.out.dtype);
  for (int p = 0; p < call.num_parts; p++) bytes += dtype_bytes(call.outs[p].dtype);
  return bytes * call.attention->head_dim_v;
}

}  // namespace

void run_merge(const MergeCall &call, const IsaKernels &kernels, int64_t threads) {
  const int64_t rows = call.batch * call.rows_q * call.heads_q;
  const int64_t at_a_time = std::max<int64_t>(bytes_at_a_time / bytes_of_row(call), 1);
  Shared shared{call, kernels, rows, at_a_time};
  const int64_t workers = std::min<int64_t>(threads, (rows + at_a_time - 1) / at_a_time);
  if (workers <= 1) return kernels.merge_parts(call, 0, rows);
  run_tasks(*call.attention, call.caller, run_worker, &shared, workers);
}

}  // namespace fa::cpu
