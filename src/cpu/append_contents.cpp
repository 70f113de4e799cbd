// What the arrays and indices of fa_append hold, checked before anything is written.
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

fa_status check_position(const AppendCall &c, const Positions &positions, const NewTokens &t, int64_t i) {
  const int64_t position = positions.of(t, i);
  if (position >= 0 && position < c.rotary_rows) return FA_OK;
  if (positions.given)
    return fail(FA_ERROR_INVALID_ARGUMENT, "args.%s[%lld][%lld] is %lld: expected 0 .. %lld, a row of args.rotary_cos",
                positions.name, ll{t.batch}, ll{t.first + i}, ll{position}, ll{c.rotary_rows - 1});
  return fail(
      FA_ERROR_INVALID_ARGUMENT,
      "args.rotary_cos has %lld rows, but row %lld of args.%s is at position %lld of sequence %d (cache_seqlens, "
      "less leftpad_k, and its number): expected a longer table, or args.positions",
      ll{c.rotary_rows}, ll{i}, positions.name, ll{position}, t.index);
}

bool is_skipped(const AppendCall &c, const NewTokens &t, int64_t i) {
  return c.slot_mapping && index_of(c.slot_mapping, t, i) < 0;
}

fa_status check_positions(const AppendCall &c, const NewTokens &t) {
  if (c.rotary_pairs == 0) return FA_OK;
  const Positions of_k = {c.positions ? "positions" : "k", c.positions, t.position};
  for (int64_t i = 0; i < t.count; i++) {
    if (is_skipped(c, t, i)) continue;
    if (const fa_status status = check_position(c, of_k, t, i)) return status;
  }
  if (!c.q) return FA_OK;
  const View &given = c.q_positions ? c.q_positions : c.positions;
  const Positions of_q = {c.q_positions ? "q_positions" : c.positions ? "positions" : "q", given, t.position};
  for (int64_t i = 0; i < queries_of(c, t); i++)
    if (const fa_status status = check_position(c, of_q, t, i)) return status;
  return FA_OK;
}

fa_status check_slots(const AppendCall &c, const NewTokens &t) {
  const int64_t slots = c.batch_cache * c.page_size;
  for (int64_t i = 0; i < t.count; i++) {
    const int64_t slot = index_of(c.slot_mapping, t, i);
    if (slot >= slots)
      return fail(
          FA_ERROR_INVALID_ARGUMENT,
          "args.slot_mapping[%lld][%lld] is %lld: expected at most %lld, as args.k_cache has %lld pages of %lld "
          "rows, or a negative number to skip the token",
          ll{t.batch}, ll{t.first + i}, ll{slot}, ll{slots - 1}, ll{c.batch_cache}, ll{c.page_size});
  }
  return FA_OK;
}

/// The pages that new tokens go to.
fa_status check_table(const AppendCall &c, const NewTokens &t) {
  if (t.count == 0) return FA_OK;
  const int64_t last = (t.place + t.count - 1) / c.page_size;
  for (int64_t i = t.place / c.page_size; i <= last; i++) {
    const int32_t page = *c.block_table.at<const int32_t>(t.index, i, 0);
    if (const fa_status status = check_page(t.index, i, page, c.batch_cache, "k_cache")) return status;
  }
  return FA_OK;
}

/// Where the sequence's rows of the cache begin, and that it has room for the new ones.
fa_status check_room(const AppendCall &c, const NewTokens &t) {
  const bool by_slots = static_cast<bool>(c.slot_mapping);
  if (t.place < 0 || (!by_slots && t.place + t.count > c.rows_cache)) {
    if (c.cache_seqlens == nullptr)
      return fail(FA_ERROR_INVALID_ARGUMENT,
                  "args.k has %lld new tokens of sequence %d, and args.k_cache has %lld rows: expected no more, as "
                  "without args.cache_seqlens they begin at row 0",
                  ll{t.count}, t.index, ll{c.rows_cache});
    return fail(FA_ERROR_INVALID_ARGUMENT,
                "args.cache_seqlens[%d] is %lld: expected 0 .. %lld, as the sequence has %lld new tokens and "
                "args.k_cache %lld rows for it",
                t.index, ll{t.place}, by_slots ? ll{INT32_MAX} : ll{c.rows_cache - t.count}, ll{t.count},
                ll{c.rows_cache});
  }
  if (c.leftpad_k != nullptr)
    if (const fa_status status =
            check_range("leftpad_k", t.index, c.leftpad_k[t.index], t.place, "the rows of args.cache_seqlens"))
      return status;
  if (c.kv_batch_idx != nullptr)
    return check_range("kv_batch_idx", t.index, t.entry, c.batch_cache - 1, "an entry of args.k_cache");
  return FA_OK;
}

fa_status check_sequence(const AppendCall &c, int64_t b) {
  if (c.seqused_new != nullptr) {
    const int32_t *const packed = c.cu_seqlens_new;
    const int64_t rows = packed != nullptr ? packed[b + 1] - packed[b] : c.rows_new;
    if (const fa_status status = check_range("seqused_new", b, c.seqused_new[b], rows, "the rows of the sequence"))
      return status;
  }
  const NewTokens t = new_tokens_of(c, b);
  if (const fa_status status = check_bound("max_seqlen_new", b, t.count, c.max_seqlen_new)) return status;
  if (const fa_status status = check_room(c, t)) return status;
  const fa_status status = c.slot_mapping ? check_slots(c, t) : c.block_table ? check_table(c, t) : FA_OK;
  return status != FA_OK ? status : check_positions(c, t);
}

}  // namespace

fa_status check_append(const AppendCall &c) {
  if (const fa_status status = check_lengths("cu_seqlens_new", c.cu_seqlens_new, c.batch, c.rows_new, "k"))
    return status;
  for (int64_t b = 0; b < c.batch; b++)
    if (const fa_status status = check_sequence(c, b)) return status;
  return FA_OK;
}

}  // namespace fa::cpu
