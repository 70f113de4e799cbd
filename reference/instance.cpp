#include "reference/instance.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <limits>

#include "reference/call.h"
#include "reference/codes.h"
#include "reference/factors.h"
#include "reference/number.h"
#include "reference/random.h"

namespace reference {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

enum Stream : uint64_t {
  for_q = 1,
  for_k,
  for_v,
  for_bias,
  for_mask,
  for_alibi,
  for_sinks,
  for_arrays,
  for_special,
  for_scales,
  for_zeros,
  for_k_rope
};

/// Offsets of count packed sequences of up to longest rows, one of which has that many.
std::vector<int32_t> packed_offsets(int64_t count, int64_t longest, Random *random) {
  std::vector<int32_t> offsets = {0};
  const int64_t full = count ? random->between(0, count - 1) : 0;
  for (int64_t b = 0; b < count; ++b)
    offsets.push_back(offsets.back() + int32_t(b == full ? longest : random->between(0, longest)));
  return offsets;
}

int32_t far_offset(Random *random) {
  return int32_t(random->one_of<int64_t>(INT_MIN, INT_MIN + 1, -5, INT_MAX - 100, INT_MAX - 1, INT_MAX));
}

/// The bias of a masked key in models: large, negative, and finite in the bias' type.
double padding(uint64_t bits, fa_dtype dtype) {
  const double lowest = -largest(dtype);
  const double values[] = {lowest, lowest, lowest / 2, std::max(lowest, -1e12), std::max(lowest, -3e9), -1e4};
  return values[bits / 3 % 6];
}

}  // namespace

Layout gapped(Layout layout) {
  return int(layout) < output_layout_count ? layout : Layout::bshd;
}

double amplitude(const Case &c, char letter, fa_dtype dtype, double usual) {
  return c.subnormal.find(letter) == std::string::npos ? usual : smallest_normal(dtype) / 4;
}

Tensor::Shape kept_shape(const std::string &kept, Tensor::Shape full) {
  for (size_t axis = 0; axis < 4; ++axis)
    if (kept.find("bhqk"[axis]) == std::string::npos) full[axis] = 1;
  return full;
}

Instance::Instance(const Case &c_in, Guard guard) : c(c_in) {
  fa_desc_init(&desc, sizeof desc);
  desc.device = FA_DEVICE_CPU;
  desc.dtype_q = c.q;
  desc.dtype_kv = c.kv;
  desc.dtype_v = c.v;
  desc.dtype_out = c.out;
  desc.mask = c.mask;
  desc.head_dim = c.d;
  desc.head_dim_v = c.dv;
  desc.head_dim_rope = c.rope;
  desc.dtype_k_rope = c.krope;
  desc.window_left = c.window_left;
  desc.window_right = c.window_right;
  desc.attention_chunk = c.chunk;
  desc.softmax_scale = float(c.scale);
  desc.softcap = float(c.softcap);
  desc.flags = c.flags;
  desc.num_threads = c.threads;

  make_arrays(guard);
  make_tensors(guard);
  bind();
  const bool refused = (c.page && (c.cu_k || c.batch_idx)) || (c.batch_idx && c.cu_k);  // no keys to speak of
  if (!refused) poison_unused();
  inputs_as_built_ = input_bytes();
}

void Instance::make_arrays(Guard guard) {
  Random random(hash(c.seed, for_arrays, 0));
  if (c.cu_q) cu_seqlens_q = GuardedInts(packed_offsets(c.b, c.sq, &random), guard);
  if (c.cu_k) cu_seqlens_k = GuardedInts(packed_offsets(c.b, c.sk, &random), guard);
  if (c.page) make_table(guard);

  std::vector<int32_t> uq, uk, lp, idx, off;
  for (size_t b = 0; b < size_t(c.b); ++b) {
    const int64_t rows_q = c.cu_q ? cu_seqlens_q[b + 1] - cu_seqlens_q[b] : c.sq;
    const int64_t rows_k = c.cu_k   ? cu_seqlens_k[b + 1] - cu_seqlens_k[b]
                           : c.page ? block_table.shape()[1] * c.page
                                    : c.sk;
    uq.push_back(int32_t(random.between(0, rows_q)));
    uk.push_back(int32_t(random.between(0, rows_k)));
    const int64_t keys = c.used_k ? uk.back() : rows_k;
    lp.push_back(int32_t(random.between(0, std::min<int64_t>(keys, random.chance(80) ? 9 : keys))));
    idx.push_back(int32_t(random.between(0, c.b + 1)));
    off.push_back(c.far ? far_offset(&random) : int32_t(random.between(-c.sq / 2, c.sk)));
  }
  if (c.used_q) seqused_q = GuardedInts(uq, guard);
  if (c.used_k) seqused_k = GuardedInts(uk, guard);
  if (c.leftpad) leftpad_k = GuardedInts(lp, guard);
  if (c.batch_idx) kv_batch_idx = GuardedInts(idx, guard);
  if (c.offset) q_offset = GuardedInts(off, guard);
}

/// Pages in a scattered order; those past the used ones are taken back by poison_unused.
void Instance::make_table(Guard guard) {
  const int64_t width = std::max<int64_t>(1, (c.sk + c.page - 1) / c.page);
  block_table = Tensor({c.b, width, 1, 1}, FA_I32, c.k_layout == Layout::padded ? Layout::padded : Layout::bshd, guard);
  const int64_t pages = c.b * width;
  std::vector<int64_t> order;
  for (int64_t page = 0; page < pages; ++page) order.push_back(page);
  std::sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
    return hash(c.seed, for_arrays, uint64_t(x) + 1) < hash(c.seed, for_arrays, uint64_t(y) + 1);
  });
  block_table.each([&](int64_t i, int64_t j, int64_t, int64_t, int64_t n) {
    block_table.set(i, j, 0, 0, double(order[size_t(n)] + 1));  // page 0 stays unused
  });
}

void Instance::make_tensors(Guard guard) {
  const int64_t tail = c.b ? int64_t(hash(c.seed, for_arrays, 0) % 3) : 0;  // rows behind the last packed sequence
  const int64_t total_q = c.cu_q ? cu_seqlens_q[size_t(c.b)] + tail : 0,
                total_k = c.cu_k ? cu_seqlens_k[size_t(c.b)] + tail : 0;
  const int64_t batch_q = c.cu_q ? 1 : c.b, rows_q = c.cu_q ? total_q : c.sq;
  int64_t batch_k = c.b, rows_k = c.sk, longest_k = c.sk;
  if (c.batch_idx) batch_k = c.b + 2;
  if (c.cu_k) batch_k = 1, rows_k = total_k;
  if (c.page) batch_k = c.b * block_table.shape()[1] + 1, rows_k = c.page, longest_k = block_table.shape()[1] * c.page;

  q = Tensor({batch_q, rows_q, c.hq, c.d}, c.q, c.q_layout, guard);
  out = Tensor({batch_q, rows_q, c.hq, c.dim_v()}, c.out_type(), c.out_layout, guard);
  if (c.lse) lse = Tensor({batch_q, c.hq, rows_q, 1}, FA_F32, c.out_layout, guard);
  q.randomise(c.seed, for_q, amplitude(c, 'q', q.dtype(), c.amp));
  make_keys_and_values(batch_k, rows_k, guard);
  if (c.v_amp != 1 || c.special) make_values_uneven();

  const Tensor::Shape scores = {c.b, c.hq, c.sq, longest_k};
  if (!c.bias.empty()) {
    const size_t colon = c.bias.find(':');
    const double amp = amplitude(c, 'b', dtype_named(c.bias.substr(0, colon)), 1);
    bias = Tensor(kept_shape(c.bias.substr(colon + 1), scores), dtype_named(c.bias.substr(0, colon)),
                  gapped(c.q_layout), guard);
    bias.each([&](int64_t i, int64_t j, int64_t m, int64_t n, int64_t index) {
      const uint64_t bits = hash(c.seed, for_bias, uint64_t(index));
      const double value = c.padded && bits % 3 == 0 ? padding(bits, bias.dtype()) : amp * normal(bits);
      bias.set(i, j, m, n, bits % 11 == 0 ? -infinity : value);
    });
  }
  if (!c.boolmask.empty()) {
    mask = Tensor(kept_shape(c.boolmask, scores), FA_BOOL, gapped(c.q_layout), guard);
    mask.each([&](int64_t i, int64_t j, int64_t m, int64_t n, int64_t index) {
      const uint64_t bits = hash(c.seed, for_mask, uint64_t(index));
      mask.set(i, j, m, n, bits % 4 == 0 ? 0 : double(1 + (bits >> 8) % 255));  // true is anything but zero
    });
  }
  const auto per_head = [&](const std::string &kept, Tensor *tensor, auto value) {
    if (kept.empty()) return;
    *tensor = Tensor(kept_shape(kept, {c.b, c.hq, 1, 1}), FA_F32, gapped(c.out_layout), guard);
    tensor->each([&](int64_t i, int64_t j, int64_t, int64_t, int64_t n) { tensor->set(i, j, 0, 0, value(n)); });
  };
  const double slope = amplitude(c, 'a', FA_F32, 1), sink = amplitude(c, 's', FA_F32, 2);
  per_head(c.alibi, &alibi_slopes, [&](int64_t n) {
    return slope * std::ldexp(1 + 0.25 * normal(hash(c.seed, for_alibi, uint64_t(n))), -int(n % 6));
  });
  per_head(c.sinks, &sinks, [&](int64_t n) { return sink * normal(hash(c.seed, for_sinks, uint64_t(n))); });
  if (!c.tree.empty()) make_tree(guard);
}

namespace {

/// An element of it, for element d of row (i, j, h).
double factor_at(const Tensor &t, int64_t i, int64_t j, int64_t h, int64_t d, int64_t dim, double absent) {
  if (!t) return absent;
  const auto index = [&](size_t axis, int64_t at) { return t.shape()[axis] == 1 ? 0 : at; };
  return t.get(index(0, i), index(1, j), index(2, h), d / (dim / t.shape()[3]));
}

}  // namespace

void Instance::make_keys_and_values(int64_t batch, int64_t rows, Guard guard) {
  const auto make = [&](char letter, fa_dtype dtype, Layout layout, int64_t dim, double amp, uint64_t stream,
                        const std::string &scales, const std::string &zeros, Tensor *tensor, Tensor *scale,
                        Tensor *zero) {
    const Tensor::Shape shape = {batch, rows, c.hkv, dim};
    *tensor = Tensor(shape, dtype, layout, guard);
    amp = amplitude(c, letter, dtype, amp);
    if (!codes_of(dtype)) return tensor->randomise(c.seed, stream, amp);
    const auto x = [&](int64_t i, int64_t j, int64_t h, int64_t d) {
      const int64_t n = ((i * rows + j) * c.hkv + h) * dim + d;
      return amp * normal(hash(c.seed, stream, uint64_t(n)));
    };
    if (codes_of(dtype)->block) return tensor->set_blocks(x);
    *scale = factors_of(scales, shape, layout, guard, [&](int64_t n) {
      const double larger = 1 + double(hash(c.seed, for_scales + stream, uint64_t(n)) % 64) / 64;
      return larger * 3.47 * amp / largest_code(dtype);
    });
    *zero = factors_of(zeros, shape, layout, guard, [&](int64_t n) {
      return middle_code(dtype) + normal(hash(c.seed, for_zeros + stream, uint64_t(n)));
    });
    tensor->each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) {
      const double s = factor_at(*scale, i, j, h, d, dim, 1), z = factor_at(*zero, i, j, h, d, dim, 0);
      tensor->set(i, j, h, d, x(i, j, h, d) / s + z);
    });
  };
  make('k', c.kv_type(), c.k_layout, c.d - c.rope, c.k_amp, for_k, c.kscale, c.kzero, &k, &k_scale, &k_zero);
  if (c.rope != 0) {
    k_rope = Tensor({batch, rows, c.hkv, c.rope}, c.krope_type(), c.k_layout, guard);
    k_rope.randomise(c.seed, for_k_rope, amplitude(c, 'k', k_rope.dtype(), c.k_amp));
  }
  make('v', c.v_type(), c.v_layout, c.dim_v(), c.v_amp, for_v, c.vscale, c.vzero, &v, &v_scale, &v_zero);
}

/// v_amp: values of every other row are 0. special: a few are NaN or infinite.
void Instance::make_values_uneven() const {
  if (codes_of(c.v_type())) {  // whose scales are what can be special
    v_scale.each([&](int64_t i, int64_t j, int64_t m, int64_t n, int64_t index) {
      const uint64_t bits = hash(c.seed, for_special, uint64_t(index));
      if (c.special && bits % 53 == 0) v_scale.set(i, j, m, n, bits / 53 % 2 ? nan : infinity);
    });
    return;
  }
  v.each([&](int64_t i, int64_t j, int64_t m, int64_t n, int64_t index) {
    const uint64_t bits = hash(c.seed, for_special, uint64_t(index));
    if (c.v_amp != 1 && j % 2 == 0) v.set(i, j, m, n, 0);
    if (c.special && bits % 53 == 0)
      v.set(i, j, m, n, bits / 53 % 3 == 0 ? nan : bits / 53 % 3 == 1 ? infinity : -infinity);
  });
}

void Instance::bind() {
  fa_forward_args_init(&args, sizeof args);
#define FA_TENSOR(name, ...) args.name = name.view();
#define FA_ARRAY(name, ...) args.name = name.data();
  FA_FORWARD_FIELDS(FA_TENSOR, FA_ARRAY, FA_NOTHING)
#undef FA_TENSOR
#undef FA_ARRAY
  if (c.cu_q || c.cu_k) args.num_seqs = c.b;
  if (c.cu_q || c.bounds) args.max_seqlen_q = c.sq;
  if (c.cu_k || c.bounds) args.max_seqlen_k = c.page ? block_table.shape()[1] * c.page : c.sk;
  args.num_splits = c.splits;
}

void Instance::clear_outputs() const {
  out.clear();
  lse.clear();
}

std::vector<char> Instance::written_rows() const {
  std::vector<char> written(size_t(out.shape()[0] * out.shape()[1]));
  for (const Sequence &s : Call(desc, args).sequences)
    for (int64_t i = 0; i < s.queries; ++i) written[size_t(s.q_batch * out.shape()[1] + s.q_row + i)] = 1;
  return written;
}

std::string Instance::untouched() const {
  const std::vector<char> written = written_rows();
  if (const std::string text = out.untouched_outside(written); !text.empty()) return "out: " + text;
  if (const std::string text = lse.untouched_outside(written, 2); !text.empty()) return "lse: " + text;
  return input_bytes() == inputs_as_built_ ? "" : "an input was written";
}

std::vector<char> Instance::input_bytes() const {
  std::vector<char> all;
  const auto add = [&](const Tensor &tensor) {
    const std::vector<char> bytes = tensor.bytes();
    all.insert(all.end(), bytes.begin(), bytes.end());
  };
#define FA_TENSOR(name, ...) add(name);
  FA_INPUT_FIELDS(FA_TENSOR, FA_NOTHING, FA_NOTHING)
  FA_QUANTISED_FIELDS(FA_TENSOR, FA_NOTHING, FA_NOTHING)
  FA_TREE_FIELDS(FA_TENSOR, FA_NOTHING, FA_NOTHING)
#undef FA_TENSOR
  return all;
}

std::vector<char> Instance::output_bits() const {
  std::vector<char> bits;
  for (const Tensor *tensor : {&out, &lse}) {
    tensor->each([&](int64_t i, int64_t j, int64_t m, int64_t n, int64_t) {
      const char *element = tensor->at(i, j, m, n);
      bits.insert(bits.end(), element, element + dtype_bytes(tensor->dtype()));
    });
  }
  return bits;
}

}  // namespace reference
