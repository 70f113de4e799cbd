// The contents of the arrays and indices of fa_append, checked before anything is written.
#include "core/status.h"
#include "cpu/append.h"
#include "cpu/contents.h"

namespace fa::cpu {
namespace {

using ll = long long;

/// Positions of the rows of k, or of q, of one sequence.
struct Positions {
  const char *name;   // of the tensor that has them
  const View &given;  // absent: consecutive ones from `first`
  int64_t first;

  int64_t of(const NewTokens &t, int64_t i) const { return given ? index_of(given, t, i) : first + i; }
};

fa_status check_position(const AppendCall &call, const Positions &positions, const NewTokens &t, int64_t i) {
  const int64_t position = positions.of(t, i);
  if (position >= 0 && position < call.rotary_rows) return FA_OK;
  if (positions.given)
    return fail(FA_ERROR_INVALID_ARGUMENT, "args.%s[%lld][%lld] is %lld: expected 0 .. %lld, a row of args.rotary_cos",
                positions.name, ll{t.batch}, ll{t.first + i}, ll{position}, ll{call.rotary_rows - 1});
  return fail(
      FA_ERROR_INVALID_ARGUMENT,
      "args.rotary_cos has %lld rows, but row %lld of args.%s is at position %lld of sequence %d (cache_seqlens, "
      "less leftpad_k, and its number): expected a longer table, or args.positions",
      ll{call.rotary_rows}, ll{i}, positions.name, ll{position}, t.index);
}

bool is_skipped(const AppendCall &call, const NewTokens &t, int64_t i) {
  return call.slot_mapping && index_of(call.slot_mapping, t, i) < 0;
}

fa_status check_positions(const AppendCall &call, const NewTokens &t) {
  if (call.rotary_pairs == 0) return FA_OK;
  const Positions of_k = {call.positions ? "positions" : "k", call.positions, t.position};
  for (int64_t i = 0; i < t.count; i++) {
    if (is_skipped(call, t, i)) continue;
    if (const fa_status status = check_position(call, of_k, t, i)) return status;
  }
  if (!call.q) return FA_OK;
  const View &given = call.q_positions ? call.q_positions : call.positions;
  const Positions of_q = {call.q_positions ? "q_positions" : call.positions ? "positions" : "q", given, t.position};
  for (int64_t i = 0; i < queries_of(call, t); i++)
    if (const fa_status status = check_position(call, of_q, t, i)) return status;
  return FA_OK;
}

fa_status check_slots(const AppendCall &call, const NewTokens &t) {
  const int64_t slots = call.batch_cache * call.page_size;
  for (int64_t i = 0; i < t.count; i++) {
    const int64_t slot = index_of(call.slot_mapping, t, i);
    if (slot >= slots)
      return fail(
          FA_ERROR_INVALID_ARGUMENT,
          "args.slot_mapping[%lld][%lld] is %lld: expected at most %lld, as args.k_cache has %lld pages of %lld "
          "rows, or a negative number to skip the token",
          ll{t.batch}, ll{t.first + i}, ll{slot}, ll{slots - 1}, ll{call.batch_cache}, ll{call.page_size});
  }
  return FA_OK;
}

/// Checks the pages that have rows for new tokens.
fa_status check_table(const AppendCall &call, const NewTokens &t) {
  if (t.count == 0) return FA_OK;
  const int64_t last = (t.cache_row + t.count - 1) / call.page_size;
  for (int64_t i = t.cache_row / call.page_size; i <= last; i++) {
    const int32_t page = *call.block_table.at<const int32_t>(t.index, i, 0);
    if (const fa_status status = check_page(t.index, i, page, call.batch_cache, "k_cache")) return status;
  }
  return FA_OK;
}

/// Checks that the sequence's part of the cache has rows for its new tokens.
fa_status check_room(const AppendCall &call, const NewTokens &t) {
  const bool by_slots = static_cast<bool>(call.slot_mapping);
  if (t.cache_row < 0 || (!by_slots && t.cache_row + t.count > call.rows_cache)) {
    if (call.cache_seqlens == nullptr)
      return fail(FA_ERROR_INVALID_ARGUMENT,
                  "args.k has %lld new tokens of sequence %d, and args.k_cache has %lld rows: expected no more, as "
                  "without args.cache_seqlens they begin at row 0",
                  ll{t.count}, t.index, ll{call.rows_cache});
    return fail(FA_ERROR_INVALID_ARGUMENT,
                "args.cache_seqlens[%d] is %lld: expected 0 .. %lld, as the sequence has %lld new tokens and "
                "args.k_cache %lld rows for it",
                t.index, ll{t.cache_row}, by_slots ? ll{INT32_MAX} : ll{call.rows_cache - t.count}, ll{t.count},
                ll{call.rows_cache});
  }
  if (call.leftpad_k != nullptr)
    if (const fa_status status =
            check_range("leftpad_k", t.index, call.leftpad_k[t.index], t.cache_row, "the rows of args.cache_seqlens"))
      return status;
  if (call.kv_batch_idx != nullptr)
    return check_range("kv_batch_idx", t.index, t.entry, call.batch_cache - 1, "an entry of args.k_cache");
  return FA_OK;
}

fa_status check_sequence(const AppendCall &call, int64_t b) {
  if (call.seqused_new != nullptr) {
    const int32_t *const packed = call.cu_seqlens_new;
    const int64_t rows = packed != nullptr ? packed[b + 1] - packed[b] : call.rows_new;
    if (const fa_status status = check_range("seqused_new", b, call.seqused_new[b], rows, "the rows of the sequence"))
      return status;
  }
  const NewTokens t = new_tokens_of(call, b);
  if (const fa_status status = check_bound("max_seqlen_new", b, t.count, call.max_seqlen_new)) return status;
  if (const fa_status status = check_room(call, t)) return status;
  const fa_status status = call.slot_mapping ? check_slots(call, t) : call.block_table ? check_table(call, t) : FA_OK;
  return status != FA_OK ? status : check_positions(call, t);
}

}  // namespace

fa_status check_append(const AppendCall &call) {
  if (const fa_status status = check_lengths("cu_seqlens_new", call.cu_seqlens_new, call.batch, call.rows_new, "k"))
    return status;
  for (int64_t b = 0; b < call.batch; b++)
    if (const fa_status status = check_sequence(call, b)) return status;
  return FA_OK;
}

}  // namespace fa::cpu
