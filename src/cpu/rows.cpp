#include "cpu/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fa::cpu {

void describe_inputs(QueryTile &tile, const Inputs &p) {
  tile.attention = p.attention;
  tile.q_elem = p.q.stride[3];
  tile.bias_elem = p.bias.stride[3];
  tile.mask_elem = p.mask.stride[3];
  tile.bias_dtype = p.bias.dtype;
  tile.alibi = static_cast<bool>(p.alibi_slopes);
}

void set_position(QueryRow &row, int64_t position) {
  const int64_t near = std::clamp<int64_t>(position, 0, INT32_MAX);
  row.position = static_cast<int32_t>(near);
  row.position_overflow = static_cast<float>(std::abs(position - near));
}

void describe_row(QueryRow &row, const Inputs &p, const Sequence &s, int64_t b, int64_t query, int64_t head,
                  Interval keys) {
  row.q = p.q.at(s.q_batch, s.q_first + query, head);
  row.bias = p.bias ? p.bias.at(b, head, query) : nullptr;
  row.mask = p.mask ? p.mask.at(b, head, query) : nullptr;
  row.low = keys.low;
  row.high = keys.high;
  set_position(row, query + s.offset);
  row.slope = p.alibi_slopes ? *p.alibi_slopes.at<const float>(b, head, 0) : 0.0f;
  row.sink = p.sinks ? *p.sinks.at<const float>(b, head, 0) : -std::numeric_limits<float>::infinity();
}

}  // namespace fa::cpu
