// quantised.*: every format of quantised keys and values against the oracle, alone and with every other feature.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "engine/counted.h"
#include "engine/features.h"
#include "engine/target.h"
#include "reference/codes.h"
#include "reference/random.h"
#include "reference/run.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

/// A way to store k and v.
struct StoredAs {
  const char *name;
  fa_dtype k, v;
  const char *kscale, *vscale, *kzero, *vzero;  // 0 groups: one a channel
};

constexpr fa_dtype as_q = FA_DTYPE_DEFAULT;
const std::vector<StoredAs> formats = {
    {"i8_per_token_and_head", FA_I8, as_q, "f32:bsh:1", "f32:bsh:1", "", ""},  // [F247]
    {"i8_per_tensor", FA_I8, as_q, "f32::1", "bf16::1", "", ""},
    {"i8_per_head_with_zeros", FA_I8, as_q, "f16:h:1", "f32:h:1", "f32:h:1", "f16:h:1"},  // [F252]
    {"i8_per_channel", FA_I8, as_q, "f32:h:0", "f32:h:0", "", ""},
    {"i8_per_group", FA_I8, as_q, "bf16:bsh:4", "f16:bsh:2", "", "f32:bs:4"},  // [F247]
    {"e4m3", FA_E4M3, as_q, "", "", "", ""},                                   // [F251]
    {"e4m3_per_head", FA_E4M3, as_q, "f32:bh:1", "f32:h:1", "", ""},
    {"e4m3_with_zeros", FA_E4M3, as_q, "f32:h:1", "", "f32::1", "f32::1"},
    {"e5m2_per_token", FA_E5M2, as_q, "f32:bs:1", "", "", ""},
    {"i4_per_token_and_head", FA_I4, as_q, "f16:bsh:1", "f16:bsh:1", "", ""},
    {"i4_per_group", FA_I4, as_q, "f16:bsh:4", "f16:bsh:4", "", ""},
    {"u4_with_zeros", FA_U4, as_q, "f16:bsh:1", "f16:bsh:1", "f16:bsh:1", "f16:bsh:1"},
    {"u4_per_channel", FA_U4, as_q, "f32:h:0", "f32:bsh:1", "f32:h:0", "f32:bsh:1"},
    {"q8_0", FA_Q8_0, as_q, "", "", "", ""},
    {"q4_0", FA_Q4_0, as_q, "", "", "", ""},
    {"i8_and_u4", FA_I8, FA_U4, "f32:bsh:1", "f32:bsh:1", "", "f32:bsh:1"},  // [F245]
    {"q8_0_and_q4_0", FA_Q8_0, FA_Q4_0, "", "", "", ""},
    {"f16_and_i4", FA_F16, FA_I4, "", "f32:bsh:1", "", ""},
    {"e4m3_and_bf16", FA_E4M3, FA_BF16, "", "", "", ""},
    {"f32_and_f16", FA_F32, FA_F16, "", "", "", ""},
};

int64_t groups_of(const std::string &words) {
  return words.empty() ? 1 : std::max(1LL, std::stoll(words.substr(words.rfind(':') + 1)));
}

/// Stores a case's keys and values so; its dimensions grow to whole units and groups.
void store_as(const StoredAs &format, Case *c) {
  c->kv = format.k, c->v = format.v;
  c->kscale = format.kscale, c->vscale = format.vscale, c->kzero = format.kzero, c->vzero = format.vzero;
  const auto whole = [](int64_t *dim, fa_dtype dtype, const std::string &scale, const std::string &zero) {
    const int64_t unit = std::lcm(unit_elements(dtype), std::lcm(groups_of(scale), groups_of(zero)));
    *dim = (*dim + unit - 1) / unit * unit;
  };
  c->dv = c->dim_v();
  whole(&c->d, c->kv_type(), c->kscale, c->kzero);
  whole(&c->dv, c->v_type(), c->vscale, c->vzero);
}

class Quantised : public EngineTest {
 protected:
  void check(Case c, const StoredAs &format) {
    store_as(format, &c);
    c.seed = ++count_;
    if (!in_shard(c.seed)) return;
    EXPECT_EQ(failure_of(c, kernel), "");
  }

  Case base(int64_t b, int64_t sq, int64_t sk, int64_t hq, int64_t hkv, int64_t d) {
    Case c = typed(Case{}, count_);
    c.b = b, c.sq = sq, c.sk = sk, c.hq = hq, c.hkv = hkv, c.d = d;
    return c;
  }

  uint64_t count_ = 0;
};

// [F245] [F246] [F247] [F250] [F251] [F252] [F254] [F265] [F266]
TEST_P(Quantised, EachFormatAlone) {
  for (const StoredAs &format : formats) {
    SCOPED_TRACE(format.name);
    check(base(2, 19, 37, 2, 2, 24), format);
    check(base(1, 70, 140, 2, 1, 40), format);
    for (const int64_t group : {1, 2, 3, 4, 8})
      for (const int64_t d : {20, 32, 64, 96}) check(base(2, 1, 70 + 16 * group, 2 * group, 2, d), format);
    for (int layout = 0; layout < layout_count; ++layout) {
      Case c = base(2, layout % 3 + 1, 45, 4, 2, 32);
      c.k_layout = Layout(layout), c.v_layout = Layout((layout * 5 + 3) % layout_count);
      check(c, format);
    }
  }
}

/// Tiles are visited from the last one on: later ones have far larger scores than those that set a row's maximum, and
/// scales of values differ by powers of two.
// [F247]
TEST_P(Quantised, ScoresThatRiseLate) {
  for (const StoredAs &format : formats) {
    if (std::string(format.kscale) != "f32:bsh:1" && std::string(format.kscale) != "f16:bsh:1") continue;
    for (const bool causal : {false, true}) {
      Case c = base(1, 150, 700, 2, 2, 128);
      c.splits = 1;  // as where blocks are many
      if (causal) c.mask = FA_MASK_CAUSAL;
      store_as(format, &c);
      c.seed = ++count_;
      if (!in_shard(c.seed)) continue;
      const Instance instance(c);
      for (int64_t j = 0; j < c.sk; ++j) {
        if (j < 300) instance.k_scale.set(0, j, 0, 0, instance.k_scale.get(0, j, 0, 0) * (j < 100 ? 20 : 5));
        instance.v_scale.set(0, j, 0, 0, std::ldexp(instance.v_scale.get(0, j, 0, 0), int(j % 7) - 3));
      }
      ASSERT_EQ(forward(Op(instance.desc, kernel), instance), FA_OK) << fa_last_error();
      EXPECT_EQ(compare(instance, Expected(instance)), "") << format.name << "\n" << repeat_line(c, kernel);
    }
  }
}

/// Head dimensions of the widest kernels, in few rows and in many.
TEST_P(Quantised, EachFormatOfWideHeads) {
  for (const StoredAs &format : formats) {
    SCOPED_TRACE(format.name);
    check(base(1, 1, 100, 4, 2, 256), format);
    check(base(1, 70, 90, 2, 1, 160), format);
    check(base(1, 3, 40, 2, 2, 320), format);
  }
}

/// Caches of latent attention: the last elements of keys in a type of their own.
// [F283] [F284] [F285] [F287]
TEST_P(Quantised, KeysInTwoParts) {
  const StoredAs numbers = {"numbers", as_q, as_q, "", "", "", ""};
  const auto divided = [&](Case c, const StoredAs &format, int64_t rope, fa_dtype type) {
    store_as(format, &c);
    c.d += rope, c.rope = rope, c.krope = type;
    c.seed = ++count_;
    if (!in_shard(c.seed)) return;
    EXPECT_EQ(failure_of(c, kernel), "") << format.name;
  };
  const fa_dtype types[] = {FA_BF16, FA_F32, FA_F16, as_q};
  size_t number = 0;
  for (const StoredAs &format : formats) {
    divided(base(1, 1, 70, 4, 1, 64), format, 32, types[number++ % 4]);
    divided(base(2, 5, 37, 2, 2, 24), format, 7, types[number++ % 4]);
    divided(base(1, 40, 90, 2, 1, 32), format, 16, types[number++ % 4]);
  }
  for (int layout = 0; layout < layout_count; ++layout) {
    Case c = base(2, layout % 3 + 1, 45, 4, 2, 32);
    c.k_layout = Layout(layout), c.v_layout = Layout((layout * 5 + 3) % layout_count);
    divided(c, layout % 2 ? numbers : formats[0], 16, types[number++ % 4]);
  }
  for (const Feature &feature : features()) {
    if (slow && hash(number) % 4 != 0 && ++number) continue;
    Case c = number % 2 ? base(2, 9, 21, 2, 2, 16) : base(2, 1, 70, 4, 2, 32);
    feature.add(&c);
    divided(c, number % 3 ? formats[number % formats.size()] : numbers, 16, types[number % 4]);
    number++;
  }
  Case latent = base(1, 2, 60, 16, 1, 512);  // of DeepSeek-V3's cache: 656 bytes a token
  latent.dv = 512;
  divided(latent, {"latent", FA_E4M3, as_q, "f32:bsh:4", "f32:bsh:4", "", ""}, 64, FA_BF16);
}

// [F44] [F245] [F248]
TEST_P(Quantised, EachFormatWithEachFeature) {
  size_t number = 0;
  for (const StoredAs &format : formats)
    for (const Feature &feature : features()) {
      SCOPED_TRACE(std::string(format.name) + " with " + feature.name);
      Case c = ++number % 2 ? base(2, 9, 21, 2, 2, 16) : base(2, 1, 70, 4, 2, 32);
      if (slow && hash(number) % 4 != 0) continue;
      feature.add(&c);
      check(c, format);
    }
}

/// Two features: those that choose rows of a cache, with those that hide some of them.
// [F44] [F248] [F257]
TEST_P(Quantised, EachFormatWithPairsOfFeatures) {
  const std::vector<std::string> rows = {"cu", "used_k", "leftpad", "batch_idx", "page"};
  const std::vector<std::string> keys = {"mask", "window", "boolmask", "splits", "softcap", "heads"};
  const auto has = [](const std::vector<std::string> &groups, const Feature &feature) {
    return std::find(groups.begin(), groups.end(), feature.group) != groups.end();
  };
  size_t number = 0;
  for (const Feature &a : features())
    for (const Feature &b : features()) {
      if (!has(rows, a) || !has(keys, b)) continue;
      Case c = number % 3 ? base(2, 1, 90, 4, 2, 32) : base(2, 7, 40, 2, 2, 16);
      c.special = number % 2 == 0;
      a.add(&c);
      b.add(&c);
      if (refused(c).empty()) check(c, formats[number++ % formats.size()]);
    }
}

/// One key, whose value is the result: exactly a code's number, whether it is read in registers or staged.
// [F261] [F262] [F263] [F264] [F265] [F266]
TEST_P(Quantised, EveryCode) {
  for (const fa_dtype dtype : {FA_I8, FA_E4M3, FA_E5M2, FA_I4, FA_U4, FA_Q8_0, FA_Q4_0}) {
    for (const int64_t queries : {1, 12}) {
      Case c = typed(Case{});
      c.sq = queries, c.sk = 1, c.hq = c.hkv = 4, c.d = 32, c.dv = 128, c.kv = FA_F32, c.v = dtype, c.out = FA_F32;
      if (!codes_of(dtype)->block && !codes_of(dtype)->floating) c.vscale = "f32::1";
      Instance instance(c);
      auto *bytes = reinterpret_cast<uint8_t *>(instance.v.at(0, 0, 0, 0));
      for (int64_t i = 0; i < row_bytes(dtype, 4 * 128); ++i) bytes[i] = uint8_t(i * 37 + i / 256);
      if (codes_of(dtype)->block)
        for (int64_t i = 0; i < 16; ++i) store(bytes + i * row_bytes(dtype, 32), FA_F16, 0.37 + double(i));
      if (instance.v_scale) instance.v_scale.set(0, 0, 0, 0, 1);
      const Op op(instance.desc, kernel);
      ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error();
      instance.out.each([&](int64_t, int64_t i, int64_t h, int64_t d, int64_t) {
        const double code = instance.v.get(0, 0, h, d), got = instance.out.get(0, i, h, d);
        ASSERT_TRUE(std::isnan(code) ? std::isnan(got) : got == code)
            << name_of(dtype) << " " << h << " " << d << ": " << got << ", expected " << code;
      });
    }
  }
}

/// Scales that are not finite reach the queries that attend their keys, as NaN, and no others.
// [F18] [F256] [F257]
TEST_P(Quantised, ScalesThatAreNotFinite) {
  for (const StoredAs &format : formats) {
    for (const double special : {double(NAN), double(INFINITY), -double(INFINITY)}) {
      for (const int64_t queries : {1, 20}) {
        Case c = base(1, queries, 50, 4, 2, 32);
        store_as(format, &c);
        c.boolmask = "k", c.seed = ++count_;
        Instance instance(c);
        instance.mask.each(
            [&](int64_t i, int64_t j, int64_t m, int64_t n, int64_t) { instance.mask.set(i, j, m, n, n != 5); });
        bool any = false;
        for (Tensor *t : {&instance.k_scale, &instance.v_scale, &instance.k_zero, &instance.v_zero}) {
          if (!*t || t->shape()[1] == 1) continue;
          any = true;
          t->set(0, 5, 0, 0, special);
        }
        for (Tensor *t : {&instance.k, &instance.v})
          if (codes_of(t->dtype()) && codes_of(t->dtype())->block)
            any = true, store(t->at(0, 5, 0, 0), FA_F16, special);
        if (!any) continue;
        const Op op(instance.desc, kernel);
        ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error();
        EXPECT_EQ(compare(instance, Expected(instance)), "") << format.name << " " << special;
        instance.mask.set(0, 0, 0, 5, 1);
        ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error();
        EXPECT_EQ(compare(instance, Expected(instance)), "") << format.name << " " << special;
        EXPECT_TRUE(std::isnan(instance.out.get(0, 0, 0, 0))) << format.name << " " << special;
      }
    }
  }
}

/// A scale behind the codes of its row, in the row.
// [F249]
TEST_P(Quantised, ScalesWithinTheRows) {
  for (const int64_t queries : {1, 20}) {
    Case c = base(2, queries, 40, 4, 2, 32);
    store_as(formats[0], &c);
    Instance instance(c);
    const Tensor rows({2, 40, 2, 36}, FA_I8, Layout::bshd, Guard::end);
    rows.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) {
      if (d < 32) rows.set(i, j, h, d, instance.k.get(i, j, h, d));
      if (d == 32) store(rows.at(i, j, h, d), FA_F32, instance.k_scale.get(i, j, h, 0));
    });
    fa_tensor &k = instance.args.k, &scale = instance.args.k_scale;
    k = scale = rows.view();
    k.shape[3] = 32;
    scale.data = rows.at(0, 0, 0, 32);
    scale.dtype = FA_F32, scale.shape[3] = 1;
    for (int64_t &stride : scale.stride) stride /= 4;
    const Op op(instance.desc, kernel);
    ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error();
    EXPECT_EQ(compare(instance, Expected(instance)), "");
  }
}

/// Scales as small as queries are large: only their product is a score.
// [F25] [F258]
TEST_P(Quantised, SmallScalesOfLargeQueries) {
  for (const StoredAs &format : formats) {
    Case c = base(1, 2, 40, 2, 2, 32);
    if (!codes_of(format.k) || codes_of(format.k)->block || *format.kscale == '\0' || c.q == FA_F16) continue;
    c.amp = 1e30, c.k_amp = 1e-30;
    check(c, format);
  }
}

/// Zeros of the cache and a score of nothing: exactly 0, whatever the codes' offset is.
TEST_P(Quantised, ZerosAreExact) {
  Case c = base(1, 1, 40, 2, 2, 32);
  c.kv = FA_U4, c.kscale = c.vscale = "f32::1", c.kzero = c.vzero = "f32::1", c.out = FA_F32;
  Instance instance(c);
  for (Tensor *t : {&instance.k_zero, &instance.v_zero}) t->set(0, 0, 0, 0, 8);
  for (Tensor *t : {&instance.k, &instance.v})
    t->each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) { t->set(i, j, h, d, 8); });
  const Op op(instance.desc, kernel);
  ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error();
  instance.out.each(
      [&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) { ASSERT_EQ(instance.out.get(i, j, h, d), 0); });
  EXPECT_NEAR(instance.lse.get(0, 0, 0, 0), std::log(40.0), 1e-6);
}

class CountedQuantised : public EngineTest {};

/// Decode reads the codes and the scales of its keys once, and hardly anything else.
TEST_P(CountedQuantised, BytesOfDecode) {
  if (!LaunchCounts::available()) GTEST_SKIP() << LaunchCounts::unavailable_reason;
  for (const fa_dtype dtype : {FA_I8, FA_E4M3, FA_I4}) {
    for (const int64_t page : {0, 16}) {
      Case c = typed(Case{});
      c.sq = 1, c.sk = 2048, c.splits = 1, c.hq = 8, c.hkv = 2, c.d = 128, c.kv = dtype, c.page = page;
      c.kscale = c.vscale = "f32:bsh:1";
      const Instance instance(c);
      const LaunchCounts launches;
      ASSERT_EQ(forward(Op(instance.desc, kernel), instance), FA_OK) << fa_last_error();
      const double bytes = launches.sum("global_bytes_read");
      const double table = page == 0 ? 0 : 4;  // that a key looks its page up in
      const double cache = 2048 * 2 * (2 * (double(row_bytes(dtype, 128)) + 4) + table);
      EXPECT_GT(bytes, cache) << repeat_line(c, kernel);
      EXPECT_LT(bytes, 1.03 * cache) << repeat_line(c, kernel);
    }
  }
}

TEST_CACHE_TARGETS(Quantised, {"f32", "f16", "mixed"});
INSTANTIATE_TEST_SUITE_P(Engine, CountedQuantised, testing::ValuesIn(gpu_targets({"f16"})), target_name);
INSTANTIATE_TEST_SUITE_P(Gpu, Quantised, testing::ValuesIn(gpu_targets({"f32", "f16", "bf16", "mixed"})), target_name);

}  // namespace
}  // namespace test
