#include "cpu/append.h"

#include <algorithm>
#include <cstring>

#include "core/dtype.h"
#include "cpu/token_box.h"

namespace fa::cpu {
namespace {

constexpr int64_t unit_bytes = 1 << 14;    // of the cache, written by one worker
constexpr int64_t worker_bytes = 1 << 18;  // read and written, for which another worker is worth waking

/// A tensor of new tokens, or of queries, and the tensor that their rows are written to.
struct RowStream {
  const View &from, &to;
  int64_t dim;
  int64_t pairs;         // of a row that are rotated
  int64_t hadamard = 1;  // then elements of a block that is rotated by a Hadamard matrix; 1: none
};

/// Consecutive tokens that are written to consecutive rows of the cache.
struct TokenRun {
  int64_t entry, row, tokens;
  bool skipped;
};

/// The bytes of one head of a token in the cache.
int64_t bytes_of_row(const Attention &a) {
  return row_bytes(a.kv_dtype, a.head_dim_k()) + row_bytes(a.k_rope_dtype, a.head_dim_rope) +
         row_bytes(a.v_dtype, a.head_dim_v);
}

/// The scales and zeros of a tensor of the cache.
struct CacheFactors {
  const View &scale, &zero;
  int64_t scale_channels, zero_channels;
};

class Worker {
 public:
  Worker(const AppendCall &call, const IsaKernels &kernels, int64_t worker, int64_t workers)
      : call_(call), kernels_(kernels), worker_(worker), workers_(workers) {
    const Attention &a = *call_.attention;
    unit_ = std::max<int64_t>(unit_bytes / std::max<int64_t>(call_.heads_kv * bytes_of_row(a), 1), 1);
    may_collide_ = call_.slot_mapping || call_.block_table || call_.kv_batch_idx != nullptr;
  }

  void run() const {
    for (int64_t b = 0; b < call_.batch; b++) {
      const NewTokens t = new_tokens_of(call_, b);
      if (call_.k) append(t);
      if (call_.q) rotate_queries(t);
    }
  }

 private:
  void append(const NewTokens &t) const {
    for (int64_t i = 0; i < t.count;) {
      const TokenRun run = run_at(t, i);
      if (!run.skipped && is_mine(run, t, i)) {
        write_keys(run, t, i);
        if (call_.k_rope) write_rope(run, t, i);
        if (call_.v) write_values(run, t, i);
      }
      i += run.tokens;
    }
  }

  void write_keys(const TokenRun &run, const NewTokens &t, int64_t i) const {
    const FactorChannels &channels = call_.channels;
    const Attention &a = *call_.attention;
    const RowStream stream = {call_.k, call_.k_cache, a.head_dim_k(), call_.pairs_of_k(), a.hadamard_k};
    if (is_quantised(call_.k_cache.dtype))
      return quantise(stream, {call_.k_scale, call_.k_zero, channels.k_scale, channels.k_zero}, run, t, i);
    write(stream, call_.k_cache.at(run.entry, run.row, 0), t, i, run.tokens);
  }

  void write_rope(const TokenRun &run, const NewTokens &t, int64_t i) const {
    write({call_.k_rope, call_.k_rope_cache, call_.attention->head_dim_rope, call_.pairs_of_k_rope()},
          call_.k_rope_cache.at(run.entry, run.row, 0), t, i, run.tokens);
  }

  void write_values(const TokenRun &run, const NewTokens &t, int64_t i) const {
    const FactorChannels &channels = call_.channels;
    const RowStream stream = {call_.v, call_.v_cache, call_.attention->head_dim_v, 0, call_.attention->hadamard_v};
    if (is_quantised(call_.v_cache.dtype))
      return quantise(stream, {call_.v_scale, call_.v_zero, channels.v_scale, channels.v_zero}, run, t, i);
    write(stream, call_.v_cache.at(run.entry, run.row, 0), t, i, run.tokens);
  }

  /// Writes a run's rows as codes.
  void quantise(const RowStream &stream, const CacheFactors &factors, const TokenRun &run, const NewTokens &t,
                int64_t i) const {
    const auto &[from, to, dim, pairs, block] = stream;
    const int64_t first = call_.rotates_tail ? dim - 2 * pairs : 0;
    const TokenBox box = Columns{from, to, 0, dim}.box(from.at(t.batch, t.first + i, 0), to.at(run.entry, run.row, 0),
                                                       run.tokens, call_.heads_kv);
    const auto of_token = [&](const View &view, int64_t channels, int64_t n) {
      char *const at = view ? view.at(run.entry, run.row + n, 0) : nullptr;
      return TokenFactor{at, view.stride[2], view.stride[3], view.dtype, channels};
    };
    for (int64_t n = 0; n < run.tokens; n++) {
      const TokenCodes codes = {of_token(factors.scale, factors.scale_channels, n),
                                of_token(factors.zero, factors.zero_channels, n), call_.computes_scales};
      kernels_.quantise_rows(box.rows(n), codes, rotation_of(stream, t, i + n), first);
    }
  }

  /// How whole rows of new token i are rotated.
  TokenRotation rotation_of(const RowStream &stream, const NewTokens &t, int64_t i) const {
    TokenRotation rotation = stream.pairs > 0 ? rotation_at(position_of(t, i)) : TokenRotation{};
    rotation.hadamard = stream.hadamard;
    return rotation;
  }

  /// The row of the rotary tables for new token i.
  int64_t position_of(const NewTokens &t, int64_t i) const {
    return call_.positions ? index_of(call_.positions, t, i) : t.position + i;
  }

  /// The tokens from i on that one worker writes to consecutive rows.
  TokenRun run_at(const NewTokens &t, int64_t i) const {
    TokenRun run = {t.entry, t.cache_row + i, t.count - i, false};
    if (call_.slot_mapping) {
      const int64_t slot = index_of(call_.slot_mapping, t, i);
      if (slot < 0) return {0, 0, 1, true};
      run.entry = slot / call_.page_size, run.row = slot % call_.page_size;
      const int64_t limit = std::min(run.tokens, rows_of_worker(run.row, call_.page_size));
      run.tokens = 1;
      while (run.tokens < limit && index_of(call_.slot_mapping, t, i + run.tokens) == slot + run.tokens) run.tokens++;
      return run;
    }
    if (call_.block_table) {
      run.entry = *call_.block_table.at<const int32_t>(t.index, run.row / call_.page_size, 0);
      run.row %= call_.page_size;
      run.tokens = std::min(run.tokens, rows_of_worker(run.row, call_.page_size));
      return run;
    }
    const int64_t whole_unit = unit_ - (may_collide_ ? run.row : row_in_call(t, i)) % unit_;
    if (workers_ > 1) run.tokens = std::min(run.tokens, whole_unit);
    return run;
  }

  /// The rows of a page, from `row` on, that one worker writes.
  int64_t rows_of_worker(int64_t row, int64_t page_size) const {
    return std::min(page_size - row, workers_ > 1 ? unit_ - row % unit_ : page_size);
  }

  /// The row of new token i in the call, counted over all sequences.
  int64_t row_in_call(const NewTokens &t, int64_t i) const { return t.batch * call_.rows_new + t.first + i; }

  /// Whether a run, which begins at token i, is this worker's. Where several tokens may have one row of the cache, a
  /// hash of the row decides, so that one worker writes all of them; else the row of the call does.
  bool is_mine(const TokenRun &run, const NewTokens &t, int64_t i) const {
    if (workers_ == 1) return true;
    if (!may_collide_) return row_in_call(t, i) / unit_ % workers_ == worker_;
    const int64_t units_of_entry = (call_.page_size > 0 ? call_.page_size : call_.rows_cache) / unit_ + 1;
    const auto unit = static_cast<uint64_t>(run.entry * units_of_entry + run.row / unit_);
    const uint64_t mixed = unit * 0x9e3779b97f4a7c15 >> 32;
    return static_cast<int64_t>(mixed * static_cast<uint64_t>(workers_) >> 32) == worker_;
  }

  void rotate_queries(const NewTokens &t) const {
    const int64_t queries = queries_of(call_, t), before = (t.batch * call_.rows_q + t.first) % workers_;
    for (int64_t i = (worker_ - before + workers_) % workers_; i < queries; i += workers_)
      write({call_.q, call_.q_out, call_.attention->head_dim, call_.rotary_pairs},
            call_.q_out.at(t.batch, t.first + i, 0), t, i, 1);
  }

  /// Writes rows i .. i + tokens - 1 of a stream, its pairs rotated and other columns as they are.
  void write(const RowStream &stream, char *to_row, const NewTokens &t, int64_t i, int64_t tokens) const {
    const auto &[from, to, dim, pairs, block] = stream;
    if (block > 1) return write_rotated(stream, to_row, t, i, tokens);
    const bool of_q = &from == &call_.q;
    const int64_t heads = of_q ? call_.heads_q : call_.heads_kv, rotated = 2 * pairs;
    const int64_t first = call_.rotates_tail ? dim - rotated : 0;
    const char *const from_row = from.at(t.batch, t.first + i, 0);
    const auto copy = [&](int64_t begin, int64_t count) {
      if (count > 0 && from_row != to_row)  // else queries in place
        copy_box(kernels_, Columns{from, to, begin, count}.box(from_row, to_row, tokens, heads));
    };
    copy(0, first);
    copy(first + rotated, dim - first - rotated);
    if (rotated == 0) return;
    const View &positions = of_q && call_.q_positions ? call_.q_positions : call_.positions;
    const TokenBox box = Columns{from, to, first, rotated}.box(from_row, to_row, tokens, heads);
    for (int64_t n = 0; n < tokens; n++) {
      const int64_t position = positions ? index_of(positions, t, i + n) : t.position + i + n;
      kernels_.rotate_rows(box.rows(n), rotation_at(position));
    }
  }

  /// The same of rows that a Hadamard matrix rotates as a whole.
  void write_rotated(const RowStream &stream, char *to_row, const NewTokens &t, int64_t i, int64_t tokens) const {
    const auto &[from, to, dim, pairs, block] = stream;
    const int64_t first = call_.rotates_tail ? dim - 2 * pairs : 0;
    const TokenBox box =
        Columns{from, to, 0, dim}.box(from.at(t.batch, t.first + i, 0), to_row, tokens, call_.heads_kv);
    for (int64_t n = 0; n < tokens; n++) {
      kernels_.rotate_whole_rows(box.rows(n), rotation_of(stream, t, i + n), first);
    }
  }

  TokenRotation rotation_at(int64_t position) const {
    const View &cos = call_.rotary_cos, &sin = call_.rotary_sin;
    return {cos.at(0, position, 0), sin.at(0, position, 0), cos.stride[3], sin.stride[3], cos.dtype, sin.dtype,
            call_.rotary_pairs,     call_.interleaved};
  }

  const AppendCall &call_;
  const IsaKernels &kernels_;
  const int64_t worker_, workers_;
  int64_t unit_;      // rows
  bool may_collide_;  // several tokens may have one row of the cache
};

}  // namespace

int64_t index_of(const View &view, const NewTokens &t, int64_t i) {
  const char *const at = view.at(t.batch, t.first + i, 0);
  if (dtype_bytes(view.dtype) == sizeof(int32_t)) {
    int32_t index;
    std::memcpy(&index, at, sizeof index);
    return index;
  }
  int64_t index;
  std::memcpy(&index, at, sizeof index);
  return index;
}

int64_t append_workers(const AppendCall &call, int64_t threads) {
  const Attention &a = *call.attention;
  const int64_t entries = call.cu_seqlens_new != nullptr ? 1 : call.batch;
  const double rows = static_cast<double>(entries * call.rows_new) * static_cast<double>(call.heads_kv);
  const double queries = static_cast<double>(entries * call.rows_q) * static_cast<double>(call.heads_q);
  const double bytes =
      rows * static_cast<double>(bytes_of_row(a)) + queries * static_cast<double>(a.head_dim * dtype_bytes(a.q_dtype));
  return std::clamp<int64_t>(static_cast<int64_t>(bytes / worker_bytes), 1, threads);
}

void run_append(const AppendCall &call, const IsaKernels &kernels, int64_t worker, int64_t workers) {
  Worker(call, kernels, worker, workers).run();
}

}  // namespace fa::cpu
