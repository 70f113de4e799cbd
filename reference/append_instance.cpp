#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/append.h"
#include "reference/codes.h"
#include "reference/factors.h"
#include "reference/number.h"
#include "reference/random.h"

namespace reference {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();

/// Streams of random numbers.
enum : uint64_t {
  for_k = 1,
  for_v,
  for_q,
  for_cache,
  for_tables,
  for_lengths,
  for_rows,
  for_special,
  for_k_rope,
  for_scales = 1000
};

int64_t draw(const AppendCase &c, uint64_t stream, uint64_t index, int64_t low, int64_t high) {
  return low + int64_t(hash(c.seed, stream, index) % uint64_t(std::max<int64_t>(high - low, 0) + 1));
}

/// 0 .. n - 1 in a scattered order.
std::vector<int64_t> scattered(const AppendCase &c, int64_t n) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < n; ++i) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
    return hash(c.seed, for_rows, uint64_t(x)) < hash(c.seed, for_rows, uint64_t(y));
  });
  return order;
}

void make_special(const Tensor &t, uint64_t seed) {
  t.each([&](int64_t i, int64_t j, int64_t m, int64_t n, int64_t index) {
    const uint64_t bits = hash(seed, for_special, uint64_t(index));
    const double numbers[] = {nan, infinity, -infinity, largest(t.dtype()), smallest(t.dtype()), -0.0};
    if (bits % 7 == 0) t.set(i, j, m, n, numbers[bits / 7 % std::size(numbers)]);
  });
}

}  // namespace

AppendInstance::AppendInstance(const AppendCase &of, Guard guard) : c(of) {
  fa_desc_init(&desc, sizeof desc);
  desc.device = FA_DEVICE_CPU;
  desc.dtype_q = c.q;
  desc.dtype_kv = c.cache;
  desc.dtype_v = c.v_cache;
  desc.head_dim = c.d;
  desc.head_dim_v = c.dv;
  desc.head_dim_rope = c.rope;
  desc.dtype_k_rope = c.k_rope_cache;
  desc.flags = c.flags;
  desc.num_threads = c.threads;
  make_arrays(guard);
  make_inputs(guard);
  make_cache(guard);
  make_rotary(guard);
  bind();
}

void AppendInstance::make_arrays(Guard guard) {
  std::vector<int32_t> cumulative = {int32_t(c.b ? draw(c, for_lengths, 0, 0, 1) : 0)}, used, lens, pad, entry;
  const std::vector<int64_t> order = scattered(c, c.b + 2);
  for (int64_t b = 0; b < c.b; ++b) {
    const auto number = uint64_t(8 * b + 1);
    const int64_t rows = c.packed ? draw(c, for_lengths, number, 0, c.sn) : c.sn;
    cumulative.push_back(int32_t(cumulative.back() + rows));
    used.push_back(int32_t(draw(c, for_lengths, number + 1, 0, rows)));
    const int64_t count = c.used ? used.back() : rows;
    lens.push_back(int32_t(draw(c, for_lengths, number + 2, 0, c.rows - count)));
    pad.push_back(int32_t(draw(c, for_lengths, number + 3, 0, c.lens ? lens.back() : 0)));
    entry.push_back(int32_t(c.repeated ? order[0] : order[size_t(b)]));
    longest_ = std::max(longest_, (c.lens ? lens.back() : 0) + std::max(rows, c.queries()));
  }
  if (c.packed) cu_seqlens_new = GuardedInts(cumulative, guard);
  if (c.used) seqused_new = GuardedInts(used, guard);
  if (c.lens) cache_seqlens = GuardedInts(lens, guard);
  if (c.leftpad) leftpad_k = GuardedInts(pad, guard);
  if (c.batch_idx) kv_batch_idx = GuardedInts(entry, guard);
}

int64_t AppendInstance::new_rows() const {
  return c.packed ? cu_seqlens_new[size_t(c.b)] + (c.b ? draw(c, for_lengths, 7, 0, 1) : 0) : c.sn;
}

void AppendInstance::make_inputs(Guard guard) {
  const int64_t batch = c.packed ? 1 : c.b, rows = new_rows();
  const auto make = [&](Tensor *t, Tensor::Shape shape, fa_dtype dtype, Layout layout, uint64_t stream) {
    *t = Tensor(shape, dtype, layout, guard);
    t->randomise(c.seed, stream, 1);
    if (c.special) make_special(*t, c.seed ^ stream);
  };
  make(&k, {batch, rows, c.hkv, c.d - c.rope}, c.k_type(), c.k_layout, for_k);
  if (c.rope) make(&k_rope, {batch, rows, c.hkv, c.rope}, c.k_type(), c.k_layout, for_k_rope);
  if (!c.keys_alone) make(&v, {batch, rows, c.hkv, c.dim_v()}, c.v_type(), c.v_layout, for_v);
  if (c.hq == 0) return;
  const int64_t queries = c.packed || c.used ? rows : c.queries();
  make(&q, {batch, queries, c.hq, c.d}, c.q_type(), c.q_layout, for_q);
  q_out = Tensor({batch, queries, c.hq, c.d}, c.q, c.q_out_layout, guard);
}

void AppendInstance::make_cache(Guard guard) {
  const bool paged = c.addressing != CacheAddressing::rows;
  const int64_t width = (c.rows + c.page - 1) / c.page;
  entries_ = paged ? c.b * width + 1 : c.batch_idx ? c.b + 2 : c.b;
  const int64_t rows = paged ? c.page : c.rows;
  const auto make = [&](Tensor *t, int64_t dim, fa_dtype dtype, Layout layout, uint64_t stream) {
    *t = Tensor({entries_, rows, c.hkv, dim}, dtype, layout, guard);
    if (!codes_of(dtype)) t->randomise(c.seed, stream, 1);  // codes hold the pattern
  };
  make(&k_cache, c.d - c.rope, c.cache_type(), c.k_cache_layout, for_cache);
  if (c.rope) make(&k_rope_cache, c.rope, c.k_rope_cache_type(), c.v_cache_layout, for_cache + 200);
  if (!c.keys_alone) make(&v_cache, c.dim_v(), c.v_cache_type(), c.v_cache_layout, for_cache + 100);
  make_scales(guard);
  if (c.addressing == CacheAddressing::pages) {
    const std::vector<int64_t> order = scattered(c, c.b * width);
    block_table =
        Tensor({c.b, width, 1, 1}, FA_I32, c.k_layout == Layout::padded ? Layout::padded : Layout::bshd, guard);
    block_table.each([&](int64_t i, int64_t j, int64_t, int64_t, int64_t n) {
      block_table.set(i, j, 0, 0, double(c.repeated ? order[size_t(j)] : order[size_t(n)]));
    });
  } else if (paged) {
    make_slots(guard);
  }
}

void AppendInstance::make_scales(Guard guard) {
  const auto make = [&](Tensor *t, const std::string &words, const Tensor &of, Layout layout, uint64_t stream,
                        bool zero) {
    if (words.empty() || !of) return;
    *t = factors_of(words, of.shape(), layout, guard, [&](int64_t n) {
      const uint64_t bits = hash(c.seed, for_scales + stream, uint64_t(n));
      if (c.special && bits % 9 == 0) {
        const double numbers[] = {nan, infinity, -infinity, 0, -0.0, smallest(FA_F32)};
        return numbers[bits / 9 % std::size(numbers)];
      }
      if (zero) return middle_code(of.dtype()) + normal(bits);
      return (bits % 16 == 1 ? -1 : 1) * (1 + double(bits % 64) / 64) * 2.5 / largest_code(of.dtype());
    });
    if (c.computed) t->clear();
  };
  make(&k_scale, c.kscale, k_cache, c.k_cache_layout, 0, false);
  make(&k_zero, c.kzero, k_cache, c.k_cache_layout, 1, true);
  make(&v_scale, c.vscale, v_cache, c.v_cache_layout, 2, false);
  make(&v_zero, c.vzero, v_cache, c.v_cache_layout, 3, true);
}

/// Some in a row, some apart.
void AppendInstance::make_slots(Guard guard) {
  const int64_t batch = c.packed ? 1 : c.b, rows = new_rows(), slots = entries_ * c.page;
  slot_mapping = Tensor({batch, rows, 1, 1}, c.addressing == CacheAddressing::slots64 ? FA_I64 : FA_I32,
                        c.k_layout == Layout::padded ? Layout::padded : Layout::bshd, guard);
  const std::vector<int64_t> order = scattered(c, slots);
  slot_mapping.each([&](int64_t i, int64_t j, int64_t, int64_t, int64_t n) {
    const bool in_a_row = c.seed % 2 == 0;
    int64_t slot = in_a_row ? (n + draw(c, for_rows, 1, 0, slots)) % slots : order[size_t(n % slots)];
    if (c.repeated && n % 3 == 2) slot = in_a_row ? draw(c, for_rows, 1, 0, slots) % slots : order[0];
    if (c.skipped && n % c.skipped == c.skipped - 1)  // the low half of a wide one is no negative number
      slot = c.addressing == CacheAddressing::slots64 ? -(1 + n) * (int64_t{1} << 32) : -1 - n;
    slot_mapping.set(i, j, 0, 0, double(slot));
  });
}

void AppendInstance::make_rotary(Guard guard) {
  if (c.pairs == 0) return;
  const int64_t rows = longest_ + 3;
  const Layout layout = c.k_layout == Layout::padded ? Layout::padded : Layout::bshd;
  rotary_cos = Tensor({1, rows, 1, c.pairs}, c.table, layout, guard);
  rotary_sin = Tensor({1, rows, 1, c.pairs}, c.table, Layout::bshd, guard);
  rotary_cos.randomise(c.seed, for_tables, 0.5);
  rotary_sin.randomise(c.seed, for_tables + 100, 0.5);
  const auto make = [&](Tensor *t, PositionType type, const Tensor &of, uint64_t stream) {
    if (type == PositionType::none) return;
    *t = Tensor({of.shape()[0], of.shape()[1], 1, 1}, type == PositionType::i64 ? FA_I64 : FA_I32, layout, guard);
    t->each([&](int64_t i, int64_t j, int64_t, int64_t, int64_t n) {
      t->set(i, j, 0, 0, double(draw(c, stream, uint64_t(n), 0, rows - 1)));
    });
  };
  make(&positions, c.positions, k, for_tables + 200);
  if (c.hq) make(&q_positions, c.q_positions, q, for_tables + 300);
}

void AppendInstance::bind() {
  fa_append_args_init(&args, sizeof args);
#define FA_TENSOR(name, ...) args.name = name.view();
#define FA_ARRAY(name, ...) args.name = name.data();
  FA_APPEND_FIELDS(FA_TENSOR, FA_ARRAY, FA_NOTHING)
#undef FA_TENSOR
#undef FA_ARRAY
  if (c.in_place && c.hq) args.q_out = args.q;
  if (c.packed) args.num_seqs = c.b;
  if (c.packed || c.bounds) args.max_seqlen_new = c.sn;
  if (c.interleaved) args.flags |= FA_APPEND_ROTARY_INTERLEAVED;
  if (c.tail) args.flags |= FA_APPEND_ROTARY_TAIL;
  if (c.computed) args.flags |= FA_APPEND_COMPUTE_SCALES;
}

std::vector<char> AppendInstance::outputs() const {
  std::vector<char> all;
  for (const Tensor *t : {&k_cache, &v_cache, &k_rope_cache, &q_out, &q, &k_scale, &v_scale, &k_zero, &v_zero}) {
    const std::vector<char> bytes = t->bytes();
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

}  // namespace reference
