// merge.*: fa_merge against the oracle, and fa.h's promises of it.
#include "reference/merge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/target.h"
#include "reference/number.h"
#include "reference/random.h"
#include "reference/run.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

class Merge : public EngineTest {
 protected:
  /// A case with the target's types: out and the first part have its own, the others any.
  MergeCase typed_merge(MergeCase c, size_t parts, uint64_t index = 0) const {
    const Case types = typed(Case{}, index);
    c.out = types.out_type();
    c.parts.assign(parts, is_mixed() ? types.q : c.out);
    for (size_t p = 1; p < parts; ++p)
      c.parts[p] = is_mixed() ? typed(Case{}, index + p).kv_type() : p % 3 == 2 ? FA_F32 : c.out;
    c.seed = index + 1;
    return c;
  }

  void expect_right(const MergeCase &c) { EXPECT_EQ(failure_of(c, kernel), ""); }

  /// The bits of a call's results.
  std::vector<char> bits_of(const MergeInstance &instance) {
    const Op op(instance.desc, kernel);
    EXPECT_EQ(merge(op, instance), FA_OK) << fa_last_error();
    return instance.output_bits();
  }
};

// [F207] [F216] [F219]
TEST_P(Merge, AnyNumberOfParts) {
  for (const size_t parts : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32}) {
    MergeCase c;
    c.dv = parts % 2 ? 40 : 64;
    c.threads = parts % 3 == 0 ? 2 : 1;
    c.workspace = parts % 4 == 0;
    expect_right(typed_merge(c, parts, parts));
  }
}

TEST_P(Merge, AnyHeadDimension) {
  for (const int64_t dv :
       {1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 33, 63, 96, 100, 127, 128, 130, 192, 255, 256, 512, 575, 576}) {
    if (!in_shard(uint64_t(dv))) continue;
    MergeCase c;
    c.dv = dv, c.sq = dv > 100 ? 2 : 5, c.hq = 3;
    expect_right(typed_merge(c, 2 + size_t(dv % 3), uint64_t(dv)));
  }
}

/// Rows in any number: fewer than a vector has lanes, and tens of items for several threads.
TEST_P(Merge, AnyNumberOfRows) {
  for (const int64_t rows : {1, 2, 7, 8, 9, 16, 33, slow ? 70 : 700}) {
    MergeCase c;
    c.b = 1 + rows % 3, c.sq = rows, c.hq = 1 + rows % 5, c.dv = 32, c.threads = 3;
    expect_right(typed_merge(c, 3, uint64_t(rows)));
  }
}

// [F216]
TEST_P(Merge, AnyLayout) {
  for (int layout = 0; layout < layout_count; ++layout) {
    if (!in_shard(uint64_t(layout))) continue;
    MergeCase c;
    c.out_layout = Layout(layout % output_layout_count);
    c.layouts = {Layout(layout), Layout((layout + 5) % layout_count), Layout::bshd};
    c.lse_layout = Layout((layout + 2) % output_layout_count);
    c.dv = layout % 2 ? 36 : 64;
    expect_right(typed_merge(c, 3, uint64_t(layout)));
  }
}

// [F208]
TEST_P(Merge, LogarithmsToBaseTwo) {
  for (const double amp : {0.0, 0.5, 20.0, 1e4}) {
    for (const bool base_2 : {false, true}) {
      MergeCase c;
      c.base_2 = base_2, c.lse_amp = amp, c.sq = 9;
      expect_right(typed_merge(c, 4, uint64_t(amp)));
    }
  }
}

// [F209] [F210]
TEST_P(Merge, PartsWithoutKeysAreNotRead) {
  for (const size_t parts : {1, 2, 5}) {
    const MergeInstance instance(typed_merge({}, parts));
    for (size_t p = 0; p < parts; ++p) {
      instance.lses[p].each([&](int64_t b, int64_t h, int64_t q, int64_t, int64_t) {
        instance.lses[p].set(b, h, q, 0, -INFINITY);
        for (int64_t d = 0; d < instance.c.dv; ++d) instance.outs[p].set(b, q, h, d, NAN);
      });
    }
    bits_of(instance);
    instance.out.each([&](int64_t b, int64_t q, int64_t h, int64_t d, int64_t) {
      ASSERT_EQ(instance.out.get(b, q, h, d), 0);
      ASSERT_EQ(instance.lse.get(b, h, q, 0), -INFINITY);
    });
  }
}

// [F211] [F212]
TEST_P(Merge, NaNAndInfinity) {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    MergeCase c;
    c.special = true, c.sq = 20, c.lse_amp = seed % 2 ? 3 : 300, c.base_2 = seed == 3, c.dv = seed == 4 ? 33 : 64;
    expect_right(typed_merge(c, 1 + seed, seed));
  }
}

// [F213]
TEST_P(Merge, RowsThatAMaskExcludesAreThoseOfPartZero) {
  for (const std::string dimensions : {"q", "bq", "hq", "bhq"}) {
    MergeCase c;
    c.mask = dimensions, c.b = 3, c.sq = 10, c.special = dimensions == "bhq";
    c.in_place = dimensions == "hq";
    expect_right(typed_merge(c, 3, dimensions.size()));
  }
}

// [F217]
TEST_P(Merge, InPlace) {
  for (int layout = 0; layout < output_layout_count; ++layout) {
    if (!in_shard(uint64_t(layout))) continue;
    MergeCase c;
    c.in_place = true, c.out_layout = Layout(layout), c.sq = 11, c.threads = 2, c.lse = layout % 3 != 1;
    expect_right(typed_merge(c, 3, uint64_t(layout)));
  }
}

// [F214]
TEST_P(Merge, BitsOfARowFollowFromItsOwnParts) {
  MergeCase c;
  c.b = 2, c.sq = slow ? 40 : 300, c.hq = 3, c.dv = 72, c.special = true;
  c = typed_merge(c, 4);
  const MergeInstance whole(c);
  const std::vector<char> bits = bits_of(whole);
  for (const int32_t threads : {2, 3, 8}) {
    MergeCase other = c;
    other.threads = threads;
    ASSERT_EQ(bits_of(MergeInstance(other)), bits) << threads << " threads";
  }
  // Each of some rows alone, by views of the same memory.
  const Op op(whole.desc, kernel);
  for (int64_t n = 0; n < c.b * c.sq * c.hq; n += 37) {
    const int64_t h = n % c.hq, q = n / c.hq % c.sq, b = n / c.hq / c.sq;
    std::vector<fa_tensor> outs, lses;
    const auto alone = [](fa_tensor t, void *at, int64_t dim) {
      return t.data = at, t.shape[0] = t.shape[1] = t.shape[2] = 1, t.shape[3] = dim, t;
    };
    for (size_t p = 0; p < c.parts.size(); ++p) {
      outs.push_back(alone(whole.outs[p].view(), whole.outs[p].at(b, q, h, 0), c.dv));
      lses.push_back(alone(whole.lses[p].view(), whole.lses[p].at(b, h, q, 0), 1));
    }
    MergeCase one = c;
    one.b = one.sq = one.hq = 1;
    const MergeInstance single(one);
    fa_merge_args args = single.args;
    args.outs = outs.data(), args.lses = lses.data();
    ASSERT_EQ(merge(op, args), FA_OK) << fa_last_error();
    for (int64_t d = 0; d < c.dv; ++d)
      ASSERT_EQ(std::memcmp(single.out.at(0, 0, 0, d), whole.out.at(b, q, h, d), size_t(dtype_bytes(c.out))), 0) << d;
    ASSERT_EQ(std::memcmp(single.lse.at(0, 0, 0, 0), whole.lse.at(b, h, q, 0), 4), 0);
  }
}

// [F215]
TEST_P(Merge, OnePartWithKeysIsTheResult) {
  for (const size_t parts : {1, 2, 3, 32}) {
    MergeCase c;
    c.sq = 17, c.dv = 50, c.lse_amp = 100;
    c.empty = false;
    c = typed_merge(c, parts);
    c.parts.assign(parts, c.out);
    const MergeInstance instance(c);
    for (size_t p = 0; p < parts; ++p)
      instance.lses[p].each([&](int64_t b, int64_t h, int64_t q, int64_t, int64_t n) {
        if (uint64_t(n) % parts == p) return;
        instance.lses[p].set(b, h, q, 0, -INFINITY);
      });
    bits_of(instance);
    instance.lse.each([&](int64_t b, int64_t h, int64_t q, int64_t, int64_t n) {
      const size_t p = uint64_t(n) % parts;
      ASSERT_EQ(instance.lse.get(b, h, q, 0), instance.lses[p].get(b, h, q, 0));
      for (int64_t d = 0; d < c.dv; ++d) ASSERT_EQ(instance.out.get(b, q, h, d), instance.outs[p].get(b, q, h, d));
    });
  }
}

/// Calls of random sizes, layouts and options.
TEST_P(Merge, RandomCalls) {
  for (uint64_t n = 0; n < (slow ? 12 : 60); ++n) {
    Random random(n);
    MergeCase c;
    c.b = random.between(1, 3), c.sq = random.between(1, 20), c.hq = random.between(1, 5);
    c.dv = random.one_of<int64_t>(4, 24, 64, 128, random.between(1, 300));
    c.out_layout = Layout(random.between(0, output_layout_count - 1));
    c.layouts.clear();
    for (int64_t layouts = random.between(1, 4); layouts > 0; --layouts)
      c.layouts.push_back(random.chance(50) ? Layout::bshd : Layout(random.between(0, layout_count - 1)));
    c.lse_layout = Layout(random.between(0, output_layout_count - 1));
    c.lse = random.chance(80), c.base_2 = random.chance(30), c.in_place = random.chance(30);
    c.mask = random.one_of("", "q", "bq", "hq", "bhq");
    c.lse_amp = random.one_of(0.0, 1.0, 30.0, 1e30);
    c.empty = random.chance(70), c.special = random.chance(20);
    c.workspace = random.chance(20), c.threads = random.one_of(1, 2, 5);
    expect_right(typed_merge(c, size_t(random.between(1, random.chance(20) ? 32 : 6)), n));
  }
}

TEST_ALL_TARGETS(Merge, all_types);

class MergedForward : public EngineTest {
 protected:
  /// Results of fa_forward over ranges of the keys, which end where cuts say, merged into the results of the whole.
  std::string failure_of_pieces(const Case &c, const std::vector<int64_t> &cuts, fa_dtype type) {
    const Instance whole(c);
    const Op op(whole.desc, kernel);
    fa_desc desc = whole.desc;
    desc.dtype_out = type;
    const Op pieces(desc, kernel);
    if (!op || !pieces) return fa_last_error();
    std::vector<Tensor> outs, lses;
    std::vector<fa_tensor> out_views, lse_views;
    int64_t first = 0;
    for (const int64_t end : cuts) {
      outs.emplace_back(whole.out.shape(), type, Layout::bshd, Guard::end);
      lses.emplace_back(whole.lse.shape(), FA_F32, Layout::bshd, Guard::end);
      fa_forward_args args = whole.args;
      args.k.data = whole.k.at(0, first, 0, 0), args.v.data = whole.v.at(0, first, 0, 0);
      args.k.shape[1] = args.v.shape[1] = end - first;
      args.out = outs.back().view(), args.lse = lses.back().view();
      const GuardedInts offset(std::vector<int32_t>(size_t(c.b), int32_t(c.sk - c.sq - first)), Guard::end);
      args.q_offset = offset.data();
      if (forward(pieces, args) != FA_OK) return fa_last_error();
      out_views.push_back(args.out), lse_views.push_back(args.lse);
      first = end;
    }
    fa_merge_args args;
    fa_merge_args_init(&args, sizeof args);
    args.outs = out_views.data(), args.lses = lse_views.data();
    args.num_parts = int32_t(cuts.size());
    args.out = whole.args.out, args.lse = whole.args.lse;
    if (merge(op, args) != FA_OK) return fa_last_error();
    const std::string fault = compare(whole, Expected(whole));
    return fault.empty() ? whole.untouched() : fault + "\n" + repeat_line(c, kernel);
  }
};

/// Pieces of f32: as good as one call, whatever the type of the merged result.
TEST_P(MergedForward, PiecesOfTheKeysAreTheWhole) {
  const std::vector<std::vector<int64_t>> cuts = {{96},           {1, 96}, {95, 96}, {48, 96}, {16, 32, 48, 64, 80, 96},
                                                  {5, 60, 61, 96}};
  uint64_t index = 0;
  for (const std::vector<int64_t> &cut : cuts) {
    for (const fa_mask mask : {FA_MASK_NONE, FA_MASK_CAUSAL}) {
      if (!in_shard(++index)) continue;
      Case c;
      c.b = 2, c.sq = index % 3 ? 5 : 40, c.sk = 96, c.hq = 4, c.hkv = 2, c.d = index % 2 ? 64 : 24, c.mask = mask;
      c.window_left = index % 4 == 3 ? 30 : -1, c.alibi = index % 5 == 1 ? "h" : "", c.amp = 2, c.seed = index;
      EXPECT_EQ(failure_of_pieces(typed(c, index), cut, FA_F32), "");
    }
  }
}

TEST_ALL_TARGETS(MergedForward, all_types);

}  // namespace
}  // namespace test
