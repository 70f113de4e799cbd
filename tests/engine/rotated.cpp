// rotated.*: caches whose keys and values fa_append rotates by a Hadamard matrix, and fa_forward's results of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/append_cases.h"
#include "engine/features.h"
#include "engine/target.h"
#include "reference/codes.h"
#include "reference/gpu.h"
#include "reference/hadamard.h"
#include "reference/random.h"
#include "reference/run.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

constexpr uint32_t both = FA_FLAG_HADAMARD_K | FA_FLAG_HADAMARD_V;
constexpr uint32_t flags_of_turns[] = {both, FA_FLAG_HADAMARD_K, both, FA_FLAG_HADAMARD_V};

const Stored caches[] = {
    {"numbers", as_k, as_k, "", "", "", "", false},
    {"i8_computed", FA_I8, as_k, "f32:bsh:1", "f16:bsh:2", "", "", true},
    {"i8_given_per_channel", FA_I8, as_k, "f32:h:0", "f32:h:0", "", "", false},
    {"e4m3_computed", FA_E4M3, as_k, "f32:bsh:1", "f32:bsh:1", "", "", true},
    {"i4_computed_groups", FA_I4, as_k, "f16:bsh:4", "f16:bsh:4", "", "", true},
    {"u4_computed", FA_U4, as_k, "f16:bsh:1", "f16:bsh:1", "f16:bsh:1", "f16:bsh:1", true},
    {"q8_0", FA_Q8_0, as_k, "", "", "", "", false},
    {"q4_0", FA_Q4_0, as_k, "", "", "", "", false},
    {"f16_and_i4", FA_F16, FA_I4, "", "f32:bsh:1", "", "", true},
};

class Rotated : public EngineTest {
 protected:
  void store_as(const Stored &cache, AppendCase *c) {
    const uint64_t number = ++count_;
    c->seed += number;
    c->q = typed(Case{}, number).q;
    if (is_mixed()) c->k = mixed_types(number).kv, c->v = mixed_types(number).out, c->table = mixed_types(number).kv;
    c->cache = cache.k, c->v_cache = cache.v;
    set_factors(c, cache);
    c->computed = cache.computed;
  }

  void check(AppendCase c, const Stored &cache) {
    SCOPED_TRACE(cache.name);
    store_as(cache, &c);
    if (!in_shard(c.seed)) return;
    EXPECT_EQ(failure_of(c, kernel), "");
  }

  void check(Case c) {
    c.seed = ++count_;
    if (!in_shard(c.seed) || !refused(c).empty()) return;
    EXPECT_EQ(failure_of(c, kernel), "");
  }

  Case base(int64_t b, int64_t sq, int64_t sk, int64_t hq, int64_t hkv, int64_t d) {
    Case c = typed(Case{}, count_);
    c.b = b, c.sq = sq, c.sk = sk, c.hq = hq, c.hkv = hkv, c.d = d;
    return c;
  }

  uint64_t count_ = 0;
};

/// With caches of other types, which the kernels of bf16 alone leave to others.
class RotatedCodes : public Rotated {};

const AppendCase ways[] = {
    with([](AppendCase *c) { c->lens = true; }),
    with([](AppendCase *c) { c->sn = 1, c->lens = true, c->b = 5, c->hkv = 3; }),
    with([](AppendCase *c) { c->lens = c->packed = c->used = c->leftpad = true, c->sn = 9; }),
    with([](AppendCase *c) { c->addressing = CacheAddressing::pages, c->lens = true, c->sn = 20, c->page = 3; }),
    with([](AppendCase *c) { c->addressing = CacheAddressing::slots64, c->sn = 7, c->skipped = 3, c->lens = true; }),
};

/// Blocks of one element, of less than a vector, of several vectors; some of which a row has.
// [F305]
TEST_P(Rotated, RowsOfAnyLength) {
  size_t number = 0;
  for (const int64_t d : {1, 2, 5, 6, 12, 24, 32, 40, 64, 96, 112, 128, 256, 448, 576}) {
    AppendCase c = ways[number % std::size(ways)];
    c.flags = flags_of_turns[number++ % 4];
    c.d = d, c.dv = number % 2 ? 0 : d / 2 + 1;
    check(c, caches[0]);
    c.pairs = d / 4, c.tail = number % 3 == 0, c.interleaved = number % 2;
    if (c.pairs != 0) check(c, caches[0]);
  }
}

/// A unit vector becomes a row of the matrix, exactly, and this one again the vector.
// [F305]
TEST_P(Rotated, TheMatrixIsItsOwnInverse) {
  constexpr int64_t n = 64;
  AppendCase c;
  c.b = 1, c.sn = c.rows = n, c.hkv = 1, c.d = n, c.flags = both;
  store_as(caches[0], &c);
  c.k = c.v = FA_DTYPE_DEFAULT;
  const AppendInstance once(c), twice(c);
  for (const Tensor *t : {&once.k, &once.v})
    t->each([&](int64_t, int64_t j, int64_t, int64_t d, int64_t) { t->set(0, j, 0, d, j == d); });
  const Op op(once.desc, kernel);
  ASSERT_EQ(append(op, once), FA_OK) << fa_last_error();
  for (const auto &[cache, again] : {std::pair{&once.k_cache, &twice.k}, std::pair{&once.v_cache, &twice.v}})
    cache->each([&](int64_t, int64_t j, int64_t, int64_t d, int64_t) {
      EXPECT_EQ(cache->get(0, j, 0, d), is_negative(j, d) ? -0.125 : 0.125) << j << " " << d;
      again->set(0, j, 0, d, cache->get(0, j, 0, d));
    });
  ASSERT_EQ(append(op, twice), FA_OK) << fa_last_error();
  for (const Tensor *cache : {&twice.k_cache, &twice.v_cache})
    cache->each([&](int64_t, int64_t j, int64_t, int64_t d, int64_t) {
      EXPECT_EQ(cache->get(0, j, 0, d), j == d ? 1 : 0) << j << " " << d;
    });
}

// [F305] [F307] [F309] [F311]
TEST_P(RotatedCodes, EachCacheAtEachPlace) {
  size_t number = 0;
  for (const Stored &cache : caches)
    for (AppendCase c : ways) {
      c.flags = flags_of_turns[number++ % 4];
      c.d = 96, c.dv = number % 2 ? 64 : 32, c.special = number % 5 == 0;
      check(c, cache);
      c.pairs = number % 3 ? 16 : 13, c.interleaved = number % 2, c.tail = number / 2 % 2,
      c.hq = number % 4 == 0 ? 2 : 0;
      check(c, cache);
    }
}

// [F305]
TEST_P(Rotated, EachLayoutOfRows) {
  for (int i = 0; i < output_layout_count; ++i) {
    AppendCase c = ways[i % 5];
    c.flags = flags_of_turns[i % 4], c.d = 32, c.pairs = i % 2 ? 8 : 0;
    c.k_layout = Layout(i), c.k_cache_layout = Layout(output_layout_count - 1 - i);
    c.v_layout = Layout((i + 3) % layout_count), c.v_cache_layout = Layout(i);
    check(c, caches[0]);
  }
}

// [F306]
TEST_P(RotatedCodes, KeysInTwoParts) {
  size_t number = 0;
  for (const Stored &cache : caches) {
    AppendCase c = ways[number % std::size(ways)];
    c.flags = flags_of_turns[number % 4], c.dv = c.d, c.rope = number % 2 ? 16 : 10, c.d += c.rope;
    c.tail = number % 3 != 0, c.pairs = c.tail ? c.rope / 2 : 8, c.lens = true;
    check(c, cache);
    Case f = number % 2 ? base(2, 9, 21, 2, 2, 64) : base(2, 1, 70, 4, 2, 64);
    f.kv = cache.k ? cache.k : f.q, f.v = cache.v;
    set_factors(&f, cache);
    f.dv = f.d, f.rope = c.rope, f.d += c.rope, f.flags = flags_of_turns[number++ % 4];
    check(f);
  }
}

// [F52]
TEST_P(RotatedCodes, BitsForEveryNumberOfThreads) {
  if (is_gpu(kernel)) return;
  for (const Stored &cache : {caches[0], caches[4]}) {
    AppendCase c = ways[0];
    store_as(cache, &c);
    c.sn = 200, c.rows = 333, c.hkv = 8, c.d = 128, c.pairs = 40, c.flags = both;
    expect_same_bits(c, {1, 3}, kernel);
  }
}

TEST_P(RotatedCodes, RandomAppends) {
  Random r(20263);
  for (int i = 0; i < 60; ++i) {
    AppendCase c;
    choose_sizes(&c, &r);
    const Stored &cache = caches[r.next() % std::size(caches)];
    c.d = r.one_of<int64_t>(32, 64, 96, 128, 192), c.dv = r.one_of<int64_t>(0, 32, 64, 160);
    choose_places(&c, &r);
    c.keys_alone = false;
    if (r.chance(60)) {
      choose_rotation(&c, &r);
      c.hq = r.chance(40) ? c.hkv * r.between(1, 3) : 0;
    }
    if (r.chance(40)) c.k_layout = random_output_layout(&r), c.v_cache_layout = random_output_layout(&r);
    choose_the_rest(&c, &r);
    c.flags = flags_of_turns[r.next() % 4];
    check(c, cache);
  }
}

// [F308] [F312]
TEST_P(Rotated, EachFeature) {
  size_t number = 0;
  for (const Feature &feature : features()) {
    SCOPED_TRACE(feature.name);
    for (Case c : {base(2, 19, 37, 2, 2, 24), base(2, 1, 70, 4, 2, 64)}) {
      c.flags = flags_of_turns[number % 4], c.special = number++ % 6 == 0;
      feature.add(&c);
      check(c);
    }
  }
}

// [F44] [F308]
TEST_P(Rotated, PairsOfFeatures) {
  Random r(20264);
  const std::vector<Feature> &all = features();
  for (int i = 0; i < 150; ++i) {
    const Feature &a = all[r.next() % all.size()], &b = all[r.next() % all.size()];
    if (std::string(a.group) == b.group) continue;
    Case c = i % 2 ? base(2, 9, 21, 2, 2, 40) : base(2, 2, 90, 4, 2, 32);
    c.flags = flags_of_turns[i % 4];
    a.add(&c);
    b.add(&c);
    check(c);
  }
}

/// Of kernels for warpgroups and tensor memory, too; of sequences that leave rows of theirs as they are.
// [F39] [F308]
TEST_P(Rotated, TilesOfManyRows) {
  size_t number = 0;
  for (const int64_t d : {64, 128}) {
    for (Case c : {base(1, 130, 150, 4, 2, d), base(3, 60, 70, 2, 1, d), base(2, 90, 90, 2, 2, d)}) {
      c.flags = flags_of_turns[number % 4], c.mask = number % 3 ? FA_MASK_CAUSAL : FA_MASK_NONE;
      c.cu_q = c.cu_k = number % 3 == 1, c.used_q = number % 3 == 2, c.workspace = number++ % 2;
      check(c);
    }
  }
}

/// In few rows and in many.
// [F308]
TEST_P(RotatedCodes, EachCacheIsRead) {
  size_t number = 0;
  for (const Stored &cache : caches)
    for (Case c : {base(1, 1, 100, 4, 2, 64), base(2, 19, 37, 2, 2, 96), base(1, 3, 40, 8, 1, 512)}) {
      c.kv = cache.k ? cache.k : c.kv, c.v = cache.v;
      set_factors(&c, cache);
      c.flags = flags_of_turns[number++ % 4];
      if (number % 3 == 0) c.dv = 64;
      check(c);
    }
}

TEST_CACHE_TARGETS(Rotated, all_types);
INSTANTIATE_TEST_SUITE_P(Gpu, Rotated, testing::ValuesIn(gpu_targets(all_types)), target_name);
TEST_CACHE_TARGETS(RotatedCodes, {"f32", "f16", "mixed"});
INSTANTIATE_TEST_SUITE_P(Gpu, RotatedCodes, testing::ValuesIn(gpu_targets(all_types)), target_name);

/// Calls of both operations, and without rotation.
class RotatedCache : public EngineTest {
 protected:
  static AppendCase of(fa_dtype cache) {
    AppendCase c;
    c.b = 2, c.sn = c.rows = 60, c.hkv = 2, c.d = 64, c.cache = cache, c.pairs = 16, c.hq = 4;
    if (codes_of(cache) && !codes_of(cache)->block) c.kscale = c.vscale = "f32:bsh:1", c.computed = true;
    return c;
  }

  /// Appends, then attends keys begin .. end - 1; lse may be null.
  void attend(const AppendInstance &cache, int64_t begin, int64_t end, const Tensor &out, const Tensor *lse) {
    const Op op(cache.desc, kernel);
    ASSERT_EQ(append(op, cache), FA_OK) << fa_last_error();
    fa_forward_args args;
    fa_forward_args_init(&args, sizeof args);
    args.q = cache.q_out.view(), args.k = cache.k_cache.view(), args.v = cache.v_cache.view(), args.out = out.view();
    args.k_scale = cache.k_scale.view(), args.v_scale = cache.v_scale.view();
    if (lse) args.lse = lse->view();
    const auto from = [&](fa_tensor *t) {
      if (t->data == nullptr) return;
      const int64_t unit = unit_elements(t->dtype);
      t->data = static_cast<char *>(t->data) + begin * t->stride[1] / unit * row_bytes(t->dtype, unit);
      t->shape[1] = end - begin;
    };
    for (fa_tensor *t : {&args.k, &args.v, &args.k_scale, &args.v_scale}) from(t);
    ASSERT_EQ(forward(op, args), FA_OK) << fa_last_error();
  }

  static Tensor result_of(const AppendCase &c) {
    return Tensor({c.b, c.sn, c.hq, c.dim_v()}, FA_F32, Layout::bshd, Guard::end);
  }

  static double distance(const Tensor &a, const Tensor &b) {
    double sum = 0;
    a.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) {
      sum += std::pow(a.get(i, j, h, d) - b.get(i, j, h, d), 2);
    });
    return std::sqrt(sum);
  }

  /// The error of a cache's type, as the root of the sum of squares, where of 32 channels one is `outlier` times
  /// larger.
  double error_of(fa_dtype type, uint32_t flags, double outlier) {
    AppendCase c = of(FA_F32);
    const Tensor exact = result_of(c), out = result_of(c);
    const auto enlarge = [&](const AppendInstance &instance) {
      for (const Tensor *t : {&instance.k, &instance.v})
        t->each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) {
          if (d % 32 == 5) t->set(i, j, h, d, outlier * t->get(i, j, h, d));
        });
    };
    const AppendInstance plain(c);
    enlarge(plain);
    attend(plain, 0, c.rows, exact, nullptr);
    c = of(type), c.flags = flags;
    const AppendInstance rotated(c);
    enlarge(rotated);
    attend(rotated, 0, c.rows, out, nullptr);
    return distance(exact, out);
  }
};

/// fa_append rotates what fa_forward rotates back, whatever the rotary embedding does before.
// [F308] [F309]
TEST_P(RotatedCache, ResultsAreThoseOfUnrotatedKeys) {
  AppendCase c = of(FA_F32);
  const Tensor exact = result_of(c);
  attend(AppendInstance(c), 0, c.rows, exact, nullptr);
  for (const uint32_t flags : flags_of_turns) {
    c.flags = flags;
    const Tensor out = result_of(c);
    attend(AppendInstance(c), 0, c.rows, out, nullptr);
    out.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) {
      ASSERT_NEAR(out.get(i, j, h, d), exact.get(i, j, h, d), 4e-6) << flags;
    });
  }
}

// [F309]
TEST_P(RotatedCache, PartsAreMerged) {
  AppendCase c = of(FA_F32);
  c.flags = both;
  const Tensor whole = result_of(c), first = result_of(c), second = result_of(c), merged = result_of(c);
  const Tensor lse[] = {Tensor({c.b, c.hq, c.sn, 1}, FA_F32, Layout::bshd, Guard::end),
                        Tensor({c.b, c.hq, c.sn, 1}, FA_F32, Layout::bshd, Guard::end)};
  const AppendInstance cache(c);
  attend(cache, 0, c.rows, whole, nullptr);
  attend(cache, 0, 23, first, &lse[0]);
  attend(cache, 23, c.rows, second, &lse[1]);
  const fa_tensor outs[] = {first.view(), second.view()}, lses[] = {lse[0].view(), lse[1].view()};
  fa_merge_args args;
  fa_merge_args_init(&args, sizeof args);
  args.outs = outs, args.lses = lses, args.num_parts = 2, args.out = merged.view();
  ASSERT_EQ(merge(Op(cache.desc, kernel), args), FA_OK) << fa_last_error();
  merged.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) {
    ASSERT_NEAR(merged.get(i, j, h, d), whole.get(i, j, h, d), 4e-6);
  });
}

/// Channels that are 30 times as large as others cost codes of few bits far less.
TEST_P(RotatedCache, OutliersCostLess) {
  for (const fa_dtype type : {FA_I8, FA_I4, FA_Q4_0}) {
    const double plain = error_of(type, 0, 30), rotated = error_of(type, both, 30);
    RecordProperty(name_of(type), std::to_string(plain) + " " + std::to_string(rotated));
    EXPECT_LT(rotated, 0.6 * plain) << name_of(type);
  }
}

TEST_ALL_TARGETS(RotatedCache, {"f32"});

}  // namespace
}  // namespace test
