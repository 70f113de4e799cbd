#include "cpu/tree_rows.h"

#include <algorithm>

#include "core/status.h"
#include "cpu/tree.h"

namespace fa::cpu {
namespace {

/// Beyond every position, and far enough from the ends of 64 bits to be added to one.
constexpr int64_t unbounded = int64_t{1} << 62;

/// Sets the positions that the window and the chunk leave to a query.
void set_position_range(const Attention &a, TreeRow &row) {
  row.low = a.window_left >= 0 ? std::max(row.position - a.window_left, -unbounded) : -unbounded;
  row.high = a.window_right >= 0 ? row.position + std::min(a.window_right, unbounded) + 1 : unbounded;
  if (a.chunk == 0) return;
  const int64_t into = row.position % a.chunk, begin = row.position - into - (into < 0 ? a.chunk : 0);
  row.low = std::max(row.low, begin);
  row.high = std::min(row.high, begin + a.chunk);
}

/// The range from the first to the last of the tokens low <= t < high that the row attends. Words without any are
/// skipped.
Interval attended_tokens(const NewKeys &keys, const TreeRow &row, int64_t low, int64_t high) {
  const auto empty_word = [&](int64_t token) { return load_i32(row.words + token / 32 * keys.word_step) == 0; };
  while (low < high && !attends_token(keys, row, low)) low = empty_word(low) ? (low / 32 + 1) * 32 : low + 1;
  if (low >= high) return {0, 0};
  while (!attends_token(keys, row, high - 1)) high = empty_word(high - 1) ? (high - 1) / 32 * 32 : high - 1;
  return {static_cast<int32_t>(low), static_cast<int32_t>(high)};
}

}  // namespace

fa_status check_depths(const ForwardCall &call) {
  if (!call.tree_depth) return FA_OK;
  for (int64_t b = 0; b < call.batch; b++) {
    const Sequence s = resolve_sequence(call, b);
    for (int64_t i = 0; i < s.queries; i++) {
      const int32_t depth = *call.tree_depth.at<const int32_t>(s.q_batch, s.q_first + i, 0);
      if (depth >= 0 && depth < s.queries) continue;
      return fail(FA_ERROR_INVALID_ARGUMENT,
                  "args.tree_depth[%lld][%lld] is %d: expected 0 .. %lld, as sequence %lld has a tree of %lld tokens",
                  static_cast<long long>(s.q_batch), static_cast<long long>(s.q_first + i), depth,
                  static_cast<long long>(s.queries - 1), static_cast<long long>(b), static_cast<long long>(s.queries));
    }
  }
  return FA_OK;
}

NewKeys new_keys_of(const ForwardCall &call, const Sequence &s) {
  NewKeys keys;
  if (!call.tree_mask) return keys;
  keys.first = static_cast<int32_t>(s.offset);
  keys.count = std::min(s.queries, s.keys - s.offset);
  keys.word_step = call.tree_mask.stride[3];
  keys.depth = call.tree_depth ? call.tree_depth.at(s.q_batch, s.q_first, 0) : nullptr;
  keys.depth_step = call.tree_depth.stride[1];
  return keys;
}

Interval describe_tree_row(TreeRow &row, const ForwardCall &call, const NewKeys &keys, const Sequence &s, int64_t query,
                           int64_t head) {
  row.words = call.tree_mask.at(s.q_batch, head, s.q_first + query);
  row.position = position_of(keys, query);
  set_position_range(*call.attention, row);
  // Without depths a token's depth is its number, so that positions bound the numbers of tokens, too.
  const int64_t begin = keys.depth == nullptr ? row.low - keys.first : 0;
  const int64_t end = keys.depth == nullptr ? row.high - keys.first : keys.count;
  const Interval tokens =
      attended_tokens(keys, row, std::max<int64_t>({begin, -int64_t{keys.first}, 0}), std::min(end, keys.count));
  const int64_t low = std::max<int64_t>(row.low, 0), high = std::min<int64_t>({row.high, s.offset, s.keys});
  if (low >= high && tokens.empty()) return {0, 0};
  return {static_cast<int32_t>(low < high ? low : tokens.low + keys.first),
          static_cast<int32_t>(tokens.empty() ? high : tokens.high + keys.first)};
}

}  // namespace fa::cpu
