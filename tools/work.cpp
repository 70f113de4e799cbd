// Counts attended pairs row by row: the keys of a query are an interval, whatever masks it but a mask tensor.
#include "work.h"

#include <algorithm>

#include "reference/call.h"
#include "reference/codes.h"

namespace fa::tool {
namespace {

int64_t floor_divide(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

/// The number of keys that a query at position p attends.
int64_t keys_of(const fa_desc &desc, int64_t p, int64_t keys) {
  int64_t low = 0, high = keys - 1;
  if (desc.mask != FA_MASK_NONE) high = std::min(high, p);
  if (desc.window_left >= 0) low = std::max(low, p - desc.window_left);
  if (desc.window_right >= 0) high = std::min(high, p + desc.window_right);
  if (desc.attention_chunk > 0) {
    const int64_t first = floor_divide(p, desc.attention_chunk) * desc.attention_chunk;
    low = std::max(low, first);
    high = std::min(high, first + desc.attention_chunk - 1);
  }
  return std::max<int64_t>(0, high - low + 1);
}

}  // namespace

Work work_of(const fa_desc &desc, const fa_forward_args &args) {
  const reference::Call call(desc, args);
  const double dims = static_cast<double>(call.dim() + call.dim_v());
  int64_t pairs = 0, queries = 0, keys = 0;
  for (const reference::Sequence &s : call.sequences) {
    for (int64_t i = 0; i < s.queries; ++i) pairs += keys_of(desc, i + s.offset, s.keys);
    queries += s.queries;
    keys += s.keys;
  }
  Work work;
  work.pairs = pairs * call.heads();
  work.flops = 2.0 * dims * static_cast<double>(work.pairs);
  const auto bytes_of = [&](fa_dtype of_d, fa_dtype of_dv) {
    return reference::row_bytes(of_d, call.dim()) + reference::row_bytes(of_dv, call.dim_v());
  };
  work.bytes = static_cast<double>(queries * call.heads() * bytes_of(call.q_type(), call.out_type()) +
                                   keys * call.heads_kv() * bytes_of(call.kv_type(), call.v_type()));
  return work;
}

}  // namespace fa::tool
