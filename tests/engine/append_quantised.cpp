// append_quantised.*: new tokens in caches of codes, with scales that are given or computed, and nothing else written.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/append_cases.h"
#include "engine/target.h"
#include "reference/codes.h"
#include "reference/gpu.h"
#include "reference/instance.h"

namespace test {
using namespace reference;
namespace {

const Stored caches[] = {
    {"i8_given_per_token", FA_I8, as_k, "f32:bsh:1", "f32:bsh:1", "", "", false},
    {"i8_given_per_tensor", FA_I8, as_k, "f32::1", "bf16::1", "", "f32::1", false},
    {"i8_given_per_channel", FA_I8, as_k, "f32:h:0", "f32:h:0", "", "", false},
    {"i8_computed", FA_I8, as_k, "f32:bsh:1", "f16:bsh:1", "", "", true},
    {"i8_computed_groups", FA_I8, as_k, "bf16:bsh:4", "f32:bsh:2", "", "", true},
    {"e4m3_alone", FA_E4M3, as_k, "", "", "", "", false},
    {"e4m3_given", FA_E4M3, as_k, "f32:bh:1", "f32:h:1", "", "f32::1", false},
    {"e4m3_computed", FA_E4M3, as_k, "f32:bsh:1", "f16:bsh:2", "", "", true},
    {"e5m2_alone", FA_E5M2, as_k, "", "", "", "", false},
    {"e5m2_computed", FA_E5M2, as_k, "f32:bsh:1", "f32:bsh:1", "", "", true},
    {"i4_given", FA_I4, as_k, "f16:bsh:1", "f32:s:4", "", "", false},
    {"i4_computed", FA_I4, as_k, "f16:bsh:1", "f16:bsh:4", "", "", true},
    {"u4_given", FA_U4, as_k, "f16:bsh:1", "f16:h:0", "f16:bsh:4", "f32:h:0", false},
    {"u4_computed", FA_U4, as_k, "f16:bsh:1", "f16:bsh:4", "f16:bsh:1", "f16:bsh:4", true},
    {"u4_computed_f32", FA_U4, as_k, "f32:bsh:2", "bf16:bsh:1", "f32:bsh:2", "bf16:bsh:1", true},
    {"q8_0", FA_Q8_0, as_k, "", "", "", "", false},
    {"q4_0", FA_Q4_0, as_k, "", "", "", "", true},
    {"i8_and_u4", FA_I8, FA_U4, "f32:bsh:1", "f32:bsh:1", "", "f32:bsh:1", true},
    {"q8_0_and_q4_0", FA_Q8_0, FA_Q4_0, "", "", "", "", false},
    {"f16_and_i4", FA_F16, FA_I4, "", "f32:bsh:1", "", "", true},
    {"e4m3_and_bf16", FA_E4M3, FA_BF16, "", "", "", "", false},
};

class AppendQuantised : public EngineTest {
 protected:
  AppendCase typed(AppendCase c, const Stored &cache) {
    const uint64_t number = ++count_;
    c.seed += number;
    c.q = is_mixed() ? mixed_types(number).q : dtype_named(GetParam().types);
    if (is_mixed())
      c.k = mixed_types(number).out, c.v = number % 2 ? FA_F32 : FA_BF16, c.table = mixed_types(number).kv;
    c.cache = cache.k, c.v_cache = cache.v;
    set_factors(&c, cache);
    c.computed = cache.computed && !(c.keys_alone && !codes_of(cache.k));
    return c;
  }

  void check(const AppendCase &c, const Stored &cache) {
    SCOPED_TRACE(cache.name);
    const AppendCase one = typed(c, cache);
    if (!in_shard(one.seed)) return;
    EXPECT_EQ(failure_of(one, kernel), "");
  }

 private:
  uint64_t count_ = 0;
};

/// Head dimensions of whole blocks.
AppendCase blocks_with(void (*change)(AppendCase *)) {
  AppendCase c;
  c.d = 64, c.dv = 32;
  change(&c);
  return c;
}

const AppendCase ways[] = {
    blocks_with([](AppendCase *c) { c->lens = true; }),
    blocks_with([](AppendCase *c) { c->sn = 1, c->lens = true, c->b = 5, c->hkv = 3; }),
    blocks_with([](AppendCase *c) { c->lens = c->batch_idx = true, c->d = 96; }),
    blocks_with([](AppendCase *c) { c->lens = c->used = c->leftpad = true, c->sn = 6, c->dv = 96; }),
    blocks_with([](AppendCase *c) { c->lens = c->packed = true, c->sn = 9, c->b = 4; }),
    blocks_with([](AppendCase *c) { c->addressing = CacheAddressing::pages, c->lens = true, c->sn = 20; }),
    blocks_with([](AppendCase *c) { c->addressing = CacheAddressing::pages, c->lens = c->packed = true, c->sn = 20, c->page = 3; }),
    blocks_with([](AppendCase *c) { c->addressing = CacheAddressing::slots32, c->sn = 7; }),
    blocks_with([](AppendCase *c) { c->addressing = CacheAddressing::slots64, c->sn = 7, c->skipped = 3, c->keys_alone = true; }),
    blocks_with(
        [](AppendCase *c) { c->addressing = CacheAddressing::slots64, c->packed = true, c->sn = 11, c->page = 5, c->skipped = 4; }),
};

// [F290] [F291] [F292] [F294] [F295] [F296]
TEST_P(AppendQuantised, EachCacheAtEachPlace) {
  for (const Stored &cache : caches)
    for (const AppendCase &way : ways) check(way, cache);
}

// [F292] [F294]
TEST_P(AppendQuantised, EachCacheInEachLayout) {
  for (const Stored &cache : caches)
    for (int i = 0; i < output_layout_count; ++i) {
      AppendCase c = ways[i % 3 == 0 ? 0 : i % 3 == 1 ? 5 : 9];
      c.k_layout = Layout(i), c.k_cache_layout = Layout(output_layout_count - 1 - i);
      c.v_layout = Layout((i + 3) % layout_count), c.v_cache_layout = Layout(i);
      check(c, cache);
    }
}

/// Rotated in f32, before numbers become codes.
// [F227] [F290]
TEST_P(AppendQuantised, EachCacheOfRotatedKeys) {
  size_t number = 0;
  for (const Stored &cache : caches)
    for (const int64_t pairs : {32, 13, 16}) {
      AppendCase c = ways[number++ % std::size(ways)];
      c.pairs = pairs, c.lens = true, c.interleaved = number % 2, c.tail = number / 2 % 2;
      c.positions = PositionType(number % 3), c.hq = number % 4 == 0 ? 2 : 0;
      check(c, cache);
    }
}

/// As DeepSeek-V3's cache is written: the last elements in a type of their own, and rotated; or the first ones are.
// [F288] [F289]
TEST_P(AppendQuantised, KeysInTwoParts) {
  const Stored numbers = {"numbers", FA_BF16, FA_F32, "", "", "", "", false};
  const fa_dtype types[] = {FA_DTYPE_DEFAULT, FA_BF16, FA_F32, FA_F16};
  size_t number = 0;
  const auto divided = [&](const Stored &cache, int64_t rope) {
    AppendCase c = ways[number % std::size(ways)];
    c.dv = c.d, c.d += rope, c.rope = rope, c.k_rope_cache = types[number % 4], c.lens = true;
    c.tail = rope > 1 && number % 3 != 0, c.interleaved = number / 4 % 2,
    c.pairs = c.tail       ? rope / 2
              : number % 5 ? 8
                           : 20;
    c.hq = c.pairs != 0 && number % 4 == 3 ? 2 : 0;
    check(c, cache);
    number++;
  };
  for (const Stored &cache : caches) divided(cache, number % 2 ? 16 : 10);
  for (size_t i = 0; i < 2 * std::size(ways); ++i)
    for (const int64_t rope : {32, 7, 1}) divided(numbers, rope);
}

/// NaN, infinities and numbers near the ends of their types; scales that are none.
// [F293] [F297]
TEST_P(AppendQuantised, SpecialNumbers) {
  for (const Stored &cache : caches)
    for (AppendCase c : {ways[0], ways[1], ways[6], ways[7]}) {
      c.special = true, c.hkv = 4;
      check(c, cache);
      c.pairs = 8, c.lens = true;
      check(c, cache);
    }
}

/// The later token stays, with its scales.
// [F233]
TEST_P(AppendQuantised, PlacesNamedTwice) {
  if (is_gpu(kernel)) return;  // where the header forbids them
  for (const Stored &cache : caches)
    for (AppendCase c : {ways[2], ways[5], ways[7]}) {
      c.repeated = true, c.b = 3, c.sn = 30, c.hkv = 4, c.d = 128, c.rows = 60, c.threads = 4;
      check(c, cache);
    }
}

// [F52]
TEST_P(AppendQuantised, BitsForEveryNumberOfThreads) {
  if (is_gpu(kernel)) return;
  size_t number = 0;
  for (const Stored &cache : caches) {
    AppendCase c = typed(ways[number++ % 2 ? 0 : 5], cache);
    c.sn = 200, c.rows = 333, c.hkv = 8, c.d = 128, c.pairs = 40;
    if (!in_shard(c.seed)) continue;
    expect_same_bits(c, {1, 3}, kernel);
  }
}

/// Rows of zeros: read as zeros, of either sign.
// [F298]
TEST_P(AppendQuantised, Zeros) {
  for (const Stored &cache : caches) {
    if (!cache.computed && !codes_of(cache.k)->block) continue;
    AppendCase c = typed(ways[0], cache);
    if (!in_shard(c.seed)) continue;
    const AppendInstance instance(c);
    for (const Tensor *t : {&instance.k, &instance.v})
      t->each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t n) { t->set(i, j, h, d, n % 3 ? 0 : -0.0); });
    const ExpectedAppend expected = run_as_expected(instance, kernel);
    for (const ExpectedCodes &row : expected.codes())
      for (size_t g = 0; g < row.scale.at.size(); ++g) {
        EXPECT_EQ(load(row.scale.at[g], row.scale.dtype), 0) << cache.name;
        if (!row.zero.at.empty()) {
          EXPECT_EQ(load(row.zero.at[g], row.zero.dtype), 0) << cache.name;
        }
      }
  }
}

/// The scale of a q4_0 block has the sign of the first of the block's numbers of largest magnitude.
// [F291]
TEST_P(AppendQuantised, LargestNumbersOfBothSigns) {
  for (const Stored &cache : caches) {
    if (const CodesLine *line = codes_of(cache.k); line == nullptr || !line->block) continue;
    AppendCase c = typed(ways[0], cache);
    if (!in_shard(c.seed)) continue;
    const AppendInstance instance(c);
    for (const Tensor *t : {&instance.k, &instance.v})
      t->each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t n) {
        const double largest = (j + h) % 2 ? 7 : -7;
        t->set(i, j, h, d, d % 32 == 9 ? largest : d % 32 == 20 ? -largest : double(n % 11) - 5);
      });
    run_as_expected(instance, kernel);
  }
}

/// Numbers that are all the same, and others far from 0: a zero stays within its type.
// [F296]
TEST_P(AppendQuantised, NumbersFarFromZero) {
  for (const Stored &cache : caches) {
    if (cache.k != FA_U4 || !cache.computed) continue;
    for (const double x : {0.0, 0.001, -7.0, 1000.0, 1e30}) {
      AppendCase c = typed(ways[0], cache);
      if (!in_shard(c.seed) || (c.k_type() == FA_F16 && x > 1000) ||
          (cache.k == FA_U4 && x > 1000 && c.kscale[0] == 'f' && c.kscale[1] == '1'))
        continue;
      const AppendInstance instance(c);
      instance.k.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t n) {
        instance.k.set(i, j, h, d, i == 0 ? x : x * (1 + double(n % 7) / 512));
      });
      const ExpectedAppend expected = run_as_expected(instance, kernel);
      for (const ExpectedCodes &row : expected.codes()) {
        if (row.row < instance.k_cache.memory() ||
            row.row >= instance.k_cache.memory() + instance.k_cache.bytes().size())
          continue;
        const size_t channels = row.numbers.size() / row.scale.at.size();
        for (size_t d = 0; d < row.numbers.size(); ++d) {
          const double scale = load(row.scale.at[d / channels], row.scale.dtype);
          const double zero = load(row.zero.at[d / channels], row.zero.dtype);
          const double read = (load_code(row.row, FA_U4, int64_t(d)) - zero) * scale, given = row.numbers[d].low;
          EXPECT_LE(std::fabs(read - given), 1.1 * scale + std::fabs(given) / 512 + 2e-5) << cache.name << " " << given;
        }
      }
    }
  }
}

/// Codes and the scale of a row next to each other.
// [F299]
TEST_P(AppendQuantised, ScalesWithinTheRows) {
  AppendCase c = typed(ways[0], caches[3]);
  c.d = c.dv = 32;
  AppendInstance instance(c);
  const Tensor rows({2, 40, 2, 36}, FA_I8, Layout::bshd, Guard::end);
  const AppendInstance apart(c);
  const auto within = [&](fa_tensor *cache, fa_tensor *scale, const Tensor &memory) {
    *cache = *scale = memory.view();
    cache->shape[3] = 32;
    scale->data = memory.at(0, 0, 0, 32);
    scale->dtype = FA_F32, scale->shape[3] = 1;
    for (int64_t &stride : scale->stride) stride /= 4;
  };
  within(&instance.args.k_cache, &instance.args.k_scale, rows);
  const std::vector<char> before = instance.outputs();
  const ExpectedAppend expected(instance.desc, instance.args);
  ASSERT_EQ(append(Op(instance.desc, kernel), instance), FA_OK) << fa_last_error();
  ASSERT_EQ(append(Op(apart.desc, kernel), apart), FA_OK) << fa_last_error();
  for (const ExpectedCodes &row : expected.codes()) EXPECT_EQ(row.fault(), "");
  rows.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) {
    if (d < 32) {
      EXPECT_EQ(*rows.at(i, j, h, d), *apart.k_cache.at(i, j, h, d));
    }
  });
}

TEST_P(AppendQuantised, RandomCalls) {
  Random r(20262);
  for (int i = 0; i < 150; ++i) {
    AppendCase c;
    choose_sizes(&c, &r);
    c.d = r.one_of<int64_t>(32, 64, 96, 128, 256), c.dv = r.one_of<int64_t>(0, 32, 64, 160);
    choose_places(&c, &r);
    if (r.chance(60)) {
      choose_rotation(&c, &r);
      c.hq = r.chance(40) ? c.hkv * r.between(1, 3) : 0;
    }
    const auto layout = [&] { return random_output_layout(&r); };
    if (r.chance(40)) c.k_layout = layout(), c.v_layout = layout();
    if (r.chance(40)) c.k_cache_layout = layout(), c.v_cache_layout = layout();
    choose_the_rest(&c, &r);
    check(c, caches[r.next() % std::size(caches)]);
  }
}

// Kernels of bf16 alone leave caches of f16 to others.
TEST_CACHE_TARGETS(AppendQuantised, {"f32", "f16", "mixed"});
INSTANTIATE_TEST_SUITE_P(Gpu, AppendQuantised, testing::ValuesIn(gpu_targets(all_types)), target_name);

}  // namespace
}  // namespace test
