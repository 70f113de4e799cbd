#include <cmath>
#include <limits>
#include <sstream>

#include "reference/merge.h"
#include "reference/number.h"
#include "reference/random.h"

namespace reference {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

enum Stream : uint64_t { of_outs = 100, of_lses = 200, of_mask = 300, of_gaps = 400, of_kinds = 500 };

}  // namespace

std::string to_text(const MergeCase &c) {
  std::ostringstream text;
  text << "merge b=" << c.b << " sq=" << c.sq << " hq=" << c.hq << " dv=" << c.dv << " out=" << name_of(c.out) << ":"
       << name_of(c.out_layout) << " parts=";
  for (size_t p = 0; p < c.parts.size(); ++p)
    text << (p ? "," : "") << name_of(c.parts[p]) << ":" << name_of(c.layouts[p % c.layouts.size()]);
  text << " lses=" << name_of(c.lse_layout) << " lse=" << c.lse << " base_2=" << c.base_2 << " in_place=" << c.in_place
       << " mask=" << c.mask << " lse_amp=" << c.lse_amp << " empty=" << c.empty << " special=" << c.special
       << " workspace=" << c.workspace << " threads=" << c.threads << " seed=" << c.seed;
  return text.str();
}

MergeInstance::MergeInstance(const MergeCase &given, Guard guard) : c(given) {
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = c.out;
  desc.head_dim = c.dv;
  desc.num_threads = c.threads;
  const Tensor::Shape shape = {c.b, c.sq, c.hq, c.dv}, sums = {c.b, c.hq, c.sq, 1};
  for (size_t p = 0; p < c.parts.size(); ++p) {
    const Layout layout = c.in_place && p == 0 ? c.out_layout : c.layouts[p % c.layouts.size()];
    outs.emplace_back(shape, c.in_place && p == 0 ? c.out : c.parts[p], layout, guard);
    lses.emplace_back(sums, FA_F32, c.lse_layout, guard);
  }
  if (!c.in_place) out = Tensor(shape, c.out, c.out_layout, guard);
  if (!c.in_place && c.lse) lse = Tensor(sums, FA_F32, c.lse_layout, guard);
  if (!c.mask.empty()) {
    const bool batch = c.mask.find('b') != std::string::npos, heads = c.mask.find('h') != std::string::npos;
    mask = Tensor({batch ? c.b : 1, heads ? c.hq : 1, c.sq, 1}, FA_BOOL, Layout::bshd, guard);
  }
  fill();
  for (const Tensor &t : outs) out_views_.push_back(t.view()), inputs_as_built_.push_back(t.bytes());
  for (const Tensor &t : lses) lse_views_.push_back(t.view()), inputs_as_built_.push_back(t.bytes());
  fa_merge_args_init(&args, sizeof args);
  args.outs = out_views_.data();
  args.lses = lse_views_.data();
  args.num_parts = int32_t(outs.size());
  args.flags = c.base_2 ? FA_MERGE_BASE_2 : 0;
  args.out = merged_out().view();
  if (c.lse) args.lse = merged_lse().view();
  if (mask) args.mask = mask.view();
}

void MergeInstance::fill() const {
  if (mask)
    mask.each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t n) {
      mask.set(i, j, k, l, hash(c.seed, of_mask, uint64_t(n)) % 3 ? 1 : 0);
    });
  for (size_t p = 0; p < outs.size(); ++p) {
    outs[p].randomise(c.seed, of_outs + p, 1);
    lses[p].randomise(c.seed, of_lses + p, c.lse_amp);
    lses[p].each([&](int64_t b, int64_t h, int64_t q, int64_t, int64_t n) {
      const uint64_t kind = hash(c.seed, of_kinds + p, uint64_t(n)), row = hash(c.seed, of_gaps, uint64_t(n));
      if (c.empty && (kind % 6 == 0 || row % 16 == 0)) {
        lses[p].set(b, h, q, 0, -infinity);
        for (int64_t d = 0; d < c.dv; ++d) outs[p].set(b, q, h, d, std::nan(""));
      } else if (c.special && kind % 12 == 1) {
        lses[p].set(b, h, q, 0, kind % 24 == 1 ? infinity : std::nan(""));
      } else if (c.special) {
        for (int64_t d = 0; d < c.dv; ++d)
          if (const uint64_t one = hash(kind ^ uint64_t(d)); one % 40 == 0)
            outs[p].set(b, q, h, d, one % 160 == 0 ? std::nan("") : one % 80 == 0 ? infinity : -infinity);
      }
    });
  }
}

std::vector<char> MergeInstance::output_bits() const {
  std::vector<char> bits;
  const auto add = [&](const Tensor &t) {
    const int64_t bytes = dtype_bytes(t.dtype());
    t.each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t) {
      const char *at = t.at(i, j, k, l);
      bits.insert(bits.end(), at, at + bytes);
    });
  };
  add(merged_out());
  if (c.lse) add(merged_lse());
  return bits;
}

std::string MergeInstance::untouched() const {
  const auto gaps = [](const Tensor &t, int axis) {
    return t.untouched_outside(std::vector<char>(size_t(t.shape()[0] * t.shape()[size_t(axis)]), 1), axis);
  };
  if (const std::string fault = gaps(merged_out(), 1); !fault.empty()) return "out: " + fault;
  if (c.lse)
    if (const std::string fault = gaps(merged_lse(), 2); !fault.empty()) return "lse: " + fault;
  for (size_t p = c.in_place ? 1 : 0; p < outs.size(); ++p)
    if (outs[p].bytes() != inputs_as_built_[p] || lses[p].bytes() != inputs_as_built_[outs.size() + p])
      return "part " + std::to_string(p) + " was written";
  return "";
}

}  // namespace reference
