// The elements that fa_append has to write.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "reference/append.h"
#include "reference/codes.h"
#include "reference/hadamard.h"
#include "reference/number.h"

namespace reference {
namespace {

char *at(const fa_tensor &t, int64_t i, int64_t j, int64_t k, int64_t l) {
  const int64_t offset = i * t.stride[0] + j * t.stride[1] + k * t.stride[2] + l * t.stride[3];
  return static_cast<char *>(t.data) + row_bytes(t.dtype, offset);
}

double number(const fa_tensor &t, int64_t i, int64_t j, int64_t k = 0, int64_t l = 0) {
  return load(at(t, i, j, k, l), t.dtype);
}

/// A row of a tensor of the call, or of the cache.
struct TensorRow {
  int64_t entry, row;
  bool operator<(const TensorRow &other) const { return std::pair(entry, row) < std::pair(other.entry, other.row); }
};

/// One sequence of new tokens, and their rows in the cache.
class Sequence {
 public:
  Sequence(const fa_append_args &args, int64_t b) : a_(args), b_(b) {
    entry = a_.cu_seqlens_new ? 0 : b;
    first = a_.cu_seqlens_new ? a_.cu_seqlens_new[b] : 0;
    tokens = a_.cu_seqlens_new ? a_.cu_seqlens_new[b + 1] - first : a_.k.shape[1];
    queries = a_.cu_seqlens_new ? tokens : a_.q.shape[1];
    if (a_.seqused_new) queries = tokens = a_.seqused_new[b];
    begin_ = a_.cache_seqlens ? a_.cache_seqlens[b] : 0;
  }

  int64_t entry, first, tokens, queries;  // of k and of q

  bool is_skipped(int64_t i) const { return a_.slot_mapping.data && slot(i) < 0; }

  TensorRow cache_row(int64_t i) const {
    const int64_t row = begin_ + i, page = a_.k_cache.shape[1];
    if (a_.slot_mapping.data) return {slot(i) / page, slot(i) % page};
    if (a_.block_table.data) return {int64_t(number(a_.block_table, b_, row / page)), row % page};
    return {a_.kv_batch_idx ? a_.kv_batch_idx[b_] : b_, row};
  }

  int64_t position(bool of_q, int64_t i) const {
    const fa_tensor &given = of_q && a_.q_positions.data ? a_.q_positions : a_.positions;
    if (given.data) return int64_t(number(given, entry, first + i));
    return begin_ + i - (a_.leftpad_k ? a_.leftpad_k[b_] : 0);
  }

 private:
  int64_t slot(int64_t i) const { return int64_t(number(a_.slot_mapping, entry, first + i)); }

  const fa_append_args &a_;
  int64_t b_, begin_;
};

/// The scales, or the zeros, of a row of codes.
ExpectedCodes::Factor factor_of(const fa_tensor &t, TensorRow row, int64_t h, int64_t dim, float absent,
                                bool computed) {
  ExpectedCodes::Factor factor;
  if (!t.data) {
    if (!computed) factor.given.assign(size_t(dim), absent);
    return factor;
  }
  const auto index = [&](int axis, int64_t of) { return t.shape[axis] == 1 ? 0 : of; };
  factor.dtype = t.dtype;
  for (int64_t g = 0; g < t.shape[3]; ++g)
    factor.at.push_back(at(t, index(0, row.entry), index(1, row.row), index(2, h), g));
  for (int64_t d = 0; d < dim && !computed; ++d)
    factor.given.push_back(float(load(factor.at[size_t(d / (dim / t.shape[3]))], t.dtype)));
  return factor;
}

/// A row that is written from one tensor into another. block: the elements that a Hadamard matrix rotates together
/// after the rotary tables; 1: none are.
class Row {
 public:
  Row(const fa_append_args &args, const fa_tensor &from, TensorRow source, const fa_tensor &to, TensorRow target,
      int64_t block = 1)
      : a_(args), from_(from), to_(to), source_(source), target_(target), block_(block) {}

  /// The expected element d.
  ExpectedAppend::Element stored(int64_t h, int64_t d, bool has_positions, int64_t p) const {
    if (block_ > 1) return rotated_in_block(h, d, has_positions, p);
    return has_positions ? rotated(h, d, p) : plain(h, d);
  }

  ExpectedAppend::Element plain(int64_t h, int64_t d) const {
    const char *const x = at(from_, source_.entry, source_.row, h, d);
    ExpectedAppend::Element e = element(h, d);
    e.copied = true;
    const double value = load(x, from_.dtype);
    char rounded[8] = {};
    store(rounded, to_.dtype, value);
    e.bits = bits_at(from_.dtype == to_.dtype ? x : rounded, to_.dtype);
    if (from_.dtype != to_.dtype && std::isnan(value)) e.copied = false, e.value = value;
    return e;
  }

  /// Element d in f32, rotated or not.
  ExpectedCodes::Number in_f32(int64_t h, int64_t d, bool is_rotated, int64_t p) const {
    if (block_ == 1 && (!is_rotated || !has_pair(d))) {
      const auto x = float(number(from_, source_.entry, source_.row, h, d));
      return {x, x};
    }
    const ExpectedAppend::Element e = stored(h, d, is_rotated, p);
    if (e.spread / 2 > largest(FA_F32)) return {0, 0, true};
    if (!std::isfinite(e.value)) return {float(e.value), float(e.value)};
    const double error = std::ldexp(e.spread, -24) + smallest(FA_F32);
    return {float(e.value - error), float(e.value + error)};
  }

  /// Element d as a sum over its Hadamard block.
  ExpectedAppend::Element rotated_in_block(int64_t h, int64_t d, bool has_positions, int64_t p) const {
    const int64_t begin = d / block_ * block_;
    ExpectedAppend::Element e = element(h, d);
    double sizes = 0;
    for (int64_t j = 0; j < block_; ++j) {
      const bool in_pair = has_positions && has_pair(begin + j);
      const ExpectedAppend::Element of = in_pair ? rotated(h, begin + j, p) : element(h, begin + j);
      const double x = in_pair ? of.value : number(from_, source_.entry, source_.row, h, begin + j);
      e.value += is_negative(d - begin, j) ? -x : x;
      e.spread += in_pair ? of.spread + 0x1p-124 : 0;
      sizes += std::fabs(x);
    }
    const double root = std::sqrt(double(block_));
    e.value /= root;
    e.spread = (e.spread + hadamard_steps(block_) * sizes) / root + std::ldexp(double(block_), -124);
    return e;
  }

  /// Whether the rotation reaches element d.
  bool has_pair(int64_t d) const {
    const int64_t width = 2 * a_.rotary_cos.shape[3],
                  begin = a_.flags & FA_APPEND_ROTARY_TAIL ? from_.shape[3] - width : 0;
    return begin <= d && d < begin + width;
  }

  /// Element d, rotated by row p of the tables.
  ExpectedAppend::Element rotated(int64_t h, int64_t d, int64_t p) const {
    const int64_t pairs = a_.rotary_cos.shape[3], dim = from_.shape[3];
    const int64_t begin = a_.flags & FA_APPEND_ROTARY_TAIL ? dim - 2 * pairs : 0, in = d - begin;
    if (in < 0 || in >= 2 * pairs) return plain(h, d);
    const bool neighbours = a_.flags & FA_APPEND_ROTARY_INTERLEAVED;
    const int64_t j = neighbours ? in / 2 : in % pairs;
    const bool second = neighbours ? in % 2 : in >= pairs;
    const int64_t other = neighbours ? in ^ 1 : (in + pairs) % (2 * pairs);
    const double own = number(from_, source_.entry, source_.row, h, d);
    const double partner = number(from_, source_.entry, source_.row, h, begin + other);
    const double cos = number(a_.rotary_cos, 0, p, 0, j), sin = number(a_.rotary_sin, 0, p, 0, j);
    ExpectedAppend::Element e = element(h, d);
    e.value = own * cos + (second ? partner * sin : -partner * sin);
    e.spread = 2 * (std::fabs(own * cos) + std::fabs(partner * sin));
    return e;
  }

 private:
  ExpectedAppend::Element element(int64_t h, int64_t d) const {
    return {at(to_, target_.entry, target_.row, h, d), to_.dtype, false, 0, 0, 0};
  }

  const fa_append_args &a_;
  const fa_tensor &from_, &to_;
  TensorRow source_, target_;
  int64_t block_;
};

}  // namespace

ExpectedAppend::ExpectedAppend(const fa_desc &desc, const fa_append_args &args) {
  const int64_t batch = args.cu_seqlens_new ? args.num_seqs : args.k.shape[0];
  const bool rotates = args.rotary_cos.data != nullptr;
  std::map<TensorRow, std::pair<int64_t, int64_t>> last;  // the token that a row of the cache holds in the end
  for (int64_t b = 0; b < batch; ++b) {
    const Sequence s(args, b);
    for (int64_t i = 0; i < s.tokens; ++i)
      if (!s.is_skipped(i)) last[s.cache_row(i)] = {b, i};
  }
  const auto add = [&](const Row &row, const fa_tensor &to, bool rotated, int64_t position) {
    for (int64_t h = 0; h < to.shape[2]; ++h)
      for (int64_t d = 0; d < to.shape[3]; ++d) elements_.push_back(row.stored(h, d, rotated, position));
  };
  for (const auto &[target, token] : last) {
    const Sequence s(args, token.first);
    const TensorRow source = {s.entry, s.first + token.second}, to = target;
    const bool computed = args.flags & FA_APPEND_COMPUTE_SCALES;
    const auto write = [&](const Row &row, const fa_tensor &cache, const fa_tensor &scale, const fa_tensor &zero,
                           bool rotated, int64_t position) {
      if (!codes_of(cache.dtype)) return add(row, cache, rotated, position);
      for (int64_t h = 0; h < cache.shape[2]; ++h) {
        ExpectedCodes codes;
        codes.row = at(cache, to.entry, to.row, h, 0);
        codes.step = cache.stride[3];
        codes.dtype = cache.dtype;
        codes.computed = computed && !codes_of(cache.dtype)->block;
        for (int64_t d = 0; d < cache.shape[3]; ++d) codes.numbers.push_back(row.in_f32(h, d, rotated, position));
        codes.scale = factor_of(scale, to, h, cache.shape[3], 1, codes.computed);
        codes.zero = factor_of(zero, to, h, cache.shape[3], -0.0F, codes.computed);
        codes_.push_back(std::move(codes));
      }
    };
    const bool in_tail = args.k_rope.data && args.flags & FA_APPEND_ROTARY_TAIL;  // where pairs are
    const int64_t position = rotates ? s.position(false, token.second) : 0;
    write(Row(args, args.k, source, args.k_cache, target, hadamard_block_of_k(desc)), args.k_cache, args.k_scale,
          args.k_zero, rotates && !in_tail, position);
    if (args.k_rope.data)
      write(Row(args, args.k_rope, source, args.k_rope_cache, target), args.k_rope_cache, {}, {}, rotates && in_tail,
            position);
    if (args.v.data)
      write(Row(args, args.v, source, args.v_cache, target, hadamard_block_of_v(desc)), args.v_cache, args.v_scale,
            args.v_zero, false, 0);
  }
  for (int64_t b = 0; b < batch && args.q.data; ++b) {
    const Sequence s(args, b);
    for (int64_t i = 0; i < s.queries; ++i) {
      const TensorRow row = {s.entry, s.first + i};
      add(Row(args, args.q, row, args.q_out, row), args.q_out, true, s.position(true, i));
    }
  }
}

}  // namespace reference
