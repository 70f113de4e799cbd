// append.*: new tokens go to their places in the cache, in its type, rotated where the call says so, and nothing else
// is written.
#include <gtest/gtest.h>

#include <climits>

#include "engine/append_cases.h"
#include "engine/target.h"
#include "reference/gpu.h"

namespace test {
using namespace reference;
namespace {

class Append : public EngineTest {
 protected:
  /// The case with the target's types; mixed ones differ between q, the cache, k and v.
  AppendCase typed(AppendCase c) {
    const uint64_t number = ++count_;
    c.seed += number;
    if (is_mixed()) {
      const MixedTypes types = mixed_types(number);
      c.q = types.q, c.cache = types.kv, c.k = types.out, c.v = number % 2 ? types.kv : types.q;
      c.q_given = types.kv, c.table = number % 3 ? FA_F32 : types.out;
    } else {
      c.q = dtype_named(GetParam().types);
    }
    return c;
  }

  void check(const AppendCase &c) {
    const AppendCase one = typed(c);
    if (!in_shard(one.seed)) return;
    EXPECT_EQ(failure_of(one, kernel), "");
  }

 private:
  uint64_t count_ = 0;
};

const AppendCase ways[] = {
    with([](AppendCase *c) { c->sn = 5; }),
    with([](AppendCase *c) { c->lens = true; }),
    with([](AppendCase *c) { c->sn = 1, c->lens = true, c->b = 5; }),
    with([](AppendCase *c) { c->lens = c->batch_idx = true; }),
    with([](AppendCase *c) { c->lens = c->used = c->bounds = true, c->sn = 6; }),
    with([](AppendCase *c) { c->lens = c->packed = true, c->sn = 9, c->b = 4; }),
    with([](AppendCase *c) { c->lens = c->packed = c->used = c->leftpad = true, c->sn = 9; }),
    with([](AppendCase *c) { c->addressing = CacheAddressing::pages, c->lens = true, c->sn = 20; }),
    with([](AppendCase *c) { c->addressing = CacheAddressing::pages, c->lens = c->packed = true, c->sn = 20, c->page = 3; }),
    with([](AppendCase *c) { c->addressing = CacheAddressing::slots32, c->sn = 7; }),
    with([](AppendCase *c) { c->addressing = CacheAddressing::slots64, c->sn = 7, c->skipped = 3; }),
    with([](AppendCase *c) { c->addressing = CacheAddressing::slots64, c->packed = true, c->sn = 11, c->page = 5; }),
    with([](AppendCase *c) { c->addressing = CacheAddressing::slots32, c->b = 1, c->sn = 30, c->skipped = 4, c->page = 16; }),
};

// [F220] [F221] [F222] [F223] [F224] [F225]
TEST_P(Append, EachPlace) {
  for (AppendCase c : ways)
    for (const int64_t d : {64, 24, 5}) {
      c.d = d;
      check(c);
      c.dv = 16, c.hkv = 3, c.seed += 100;
      check(c);
      c.keys_alone = true;
      check(c);
    }
}

// [F226]
TEST_P(Append, EachLayout) {
  for (int i = 0; i < output_layout_count; ++i)
    for (const AppendCase &way : {ways[1], ways[7], ways[10]}) {
      AppendCase c = way;
      c.k_layout = Layout(i), c.k_cache_layout = Layout(output_layout_count - 1 - i);
      c.v_layout = Layout((i + 3) % layout_count), c.v_cache_layout = Layout(i);
      c.d = 32, c.seed += uint64_t(i);
      check(c);
      c.pairs = 12, c.lens = true, c.hq = 4, c.q_layout = Layout(i), c.q_out_layout = c.k_cache_layout;
      check(c);
    }
}

/// Bits of NaN, infinities and numbers near the ends of their types.
// [F226]
TEST_P(Append, SpecialNumbers) {
  for (AppendCase c : ways) {
    c.special = true;
    check(c);
    c.pairs = 8, c.hq = 2, c.lens = true;
    check(c);
  }
}

/// Sequences and rotations of all kinds together.
// [F227] [F228] [F229] [F230] [F231] [F232]
TEST_P(Append, EachRotation) {
  for (AppendCase c : ways)
    for (const int64_t pairs : {32, 13, 1})
      for (const int kind : {0, 1, 2, 3}) {
        c.pairs = pairs, c.interleaved = kind % 2, c.tail = kind / 2, c.seed += 7;
        c.lens = true;
        c.hq = kind == 1 ? 0 : 4;
        c.positions = PositionType((kind + pairs) % 3);
        c.q_positions = PositionType((kind + pairs / 2) % 3);
        c.in_place = kind == 3 && !is_mixed();
        check(c);
      }
}

/// More or fewer queries than new tokens; none of these at all.
// [F232]
TEST_P(Append, AnyNumberOfQueries) {
  for (const int64_t sq : {1, 9})
    for (const int64_t sn : {4, 0}) {
      AppendCase c;
      c.sn = sn, c.sq = sq, c.hq = 4, c.pairs = 16, c.lens = true, c.d = 40;
      check(c);
      c.q_positions = PositionType::i64;
      check(c);
      c.positions = PositionType::i32;
      check(c);
    }
}

/// The later token stays, for every number of threads.
// [F233]
TEST_P(Append, PlacesNamedTwice) {
  if (is_gpu(kernel)) return;  // where the header forbids them
  for (AppendCase c : ways) {
    if (c.addressing == CacheAddressing::rows && !c.batch_idx) continue;
    c.repeated = true, c.b = 3;
    for (const int32_t threads : {1, 4}) {
      c.threads = threads;
      c.sn = 30, c.hkv = 8, c.d = 256, c.rows = 60;
      check(c);
    }
  }
}

/// Enough to be shared out among threads.
// [F52]
TEST_P(Append, BitsForEveryNumberOfThreads) {
  if (is_gpu(kernel)) return;
  for (const AppendCase &way : {ways[1], ways[5], ways[7], ways[11], ways[12]}) {
    AppendCase c = typed(way);
    c.sn = 200, c.rows = 333, c.hkv = 8, c.d = 128, c.pairs = 40, c.hq = 8, c.lens = true;
    if (!in_shard(c.seed)) continue;
    ASSERT_EQ(failure_of(c, kernel), "");
    expect_same_bits(c, {1, 2, 3, 7}, kernel);
  }
}

// [F20]
TEST_P(Append, EmptyDimensions) {
  for (const AppendCase &way : ways)
    for (int64_t AppendCase::*member : {&AppendCase::b, &AppendCase::sn, &AppendCase::hkv}) {
      AppendCase c = way;
      c.*member = 0;
      if (c.b == 0 && c.addressing == CacheAddressing::pages) continue;  // whose table would have no memory
      check(c);
      c.pairs = 3, c.hq = 2, c.lens = true;
      check(c);
    }
}

TEST_P(Append, RandomCalls) {
  Random r(20261);
  for (int i = 0; i < 150; ++i) {
    AppendCase c;
    choose_sizes(&c, &r);
    c.d = r.chance(50) ? r.one_of<int64_t>(16, 64, 128) : r.between(2, 90);
    if (r.chance(30)) c.dv = r.between(1, 90);
    choose_places(&c, &r);
    if (r.chance(60)) {
      choose_rotation(&c, &r);
      c.positions = r.one_of(PositionType::none, PositionType::i32, PositionType::i64);
      c.hq = r.chance(60) ? c.hkv * r.between(1, 3) : 0;
      c.q_positions = r.one_of(PositionType::none, PositionType::i32, PositionType::i64);
      c.sq = r.chance(20) && c.positions == PositionType::none ? r.between(1, 9) : 0;
      c.in_place = !is_mixed() && r.chance(20);
    }
    const auto layout = [&] { return random_output_layout(&r); };
    if (r.chance(40)) c.k_layout = layout(), c.v_layout = layout(), c.q_layout = layout();
    if (r.chance(40)) c.k_cache_layout = layout(), c.v_cache_layout = layout(), c.q_out_layout = layout();
    choose_the_rest(&c, &r);
    check(c);
  }
}

TEST_ALL_TARGETS(Append, all_types);

class AppendContents : public EngineTest {
 protected:
  static AppendCase base() {
    AppendCase c;
    c.b = 3, c.sn = 5, c.rows = 20, c.hkv = 1, c.d = 16, c.lens = true;
    return c;
  }

  /// Expects the call to be refused with a text that has each of words, and nothing to be written.
  void expect_refused(const AppendInstance &instance, const std::vector<std::string> &words) {
    const Op op(instance.desc, kernel);
    const std::vector<char> before = instance.outputs();
    EXPECT_EQ(append(op, instance), FA_ERROR_INVALID_ARGUMENT) << words[0];
    for (const std::string &word : words)
      EXPECT_NE(std::string(fa_last_error()).find(word), std::string::npos) << fa_last_error() << " lacks " << word;
    EXPECT_EQ(instance.outputs(), before) << words[0];
  }

  void expect_each_refused(const AppendCase &c, GuardedInts AppendInstance::*array, const std::vector<int32_t> &wrong,
                           const std::string &name) {
    for (size_t at = 0; at < size_t(c.b); ++at)
      for (const int32_t value : wrong) {
        const AppendInstance instance(c);
        (instance.*array)[at] = value;
        expect_refused(instance, {name + "[" + std::to_string(at) + "]", std::to_string(value)});
      }
  }

  void expect_each_refused(const AppendCase &c, Tensor AppendInstance::*tensor, const std::vector<double> &wrong,
                           const std::string &name) {
    const AppendInstance like(c);
    for (const int64_t i : {int64_t{0}, (like.*tensor).shape()[0] - 1})
      for (const int64_t j : {int64_t{0}, (like.*tensor).shape()[1] - 1})
        for (const double value : wrong) {
          const AppendInstance instance(c);
          (instance.*tensor).set(i, j, 0, 0, value);
          expect_refused(instance, {name + "[" + std::to_string(i) + "][" + std::to_string(j) + "] is " +
                                    std::to_string(int64_t(value))});
        }
  }
};

// [F234]
TEST_P(AppendContents, Arrays) {
  AppendCase c = base();
  expect_each_refused(c, &AppendInstance::cache_seqlens, {-1, 16, INT_MAX, INT_MIN}, "args.cache_seqlens");
  c.used = true;
  expect_each_refused(c, &AppendInstance::seqused_new, {-1, 6, INT_MAX, INT_MIN}, "args.seqused_new");
  c.leftpad = true;
  expect_each_refused(c, &AppendInstance::leftpad_k, {-1, 21, INT_MAX, INT_MIN}, "args.leftpad_k");
  c.batch_idx = true;
  expect_each_refused(c, &AppendInstance::kv_batch_idx, {-1, 5, INT_MAX, INT_MIN}, "args.kv_batch_idx");
  c.addressing = CacheAddressing::slots32, c.batch_idx = c.leftpad = false;
  expect_each_refused(c, &AppendInstance::cache_seqlens, {-1, INT_MIN}, "args.cache_seqlens");
}

// [F234]
TEST_P(AppendContents, CuSeqlens) {
  AppendCase c = base();
  c.packed = true;
  for (const auto &[at, value] :
       std::vector<std::pair<size_t, int32_t>>{{0, -1}, {1, -1}, {1, INT_MAX}, {3, INT_MAX}, {3, -1}}) {
    const AppendInstance instance(c);
    instance.cu_seqlens_new[at] = value;
    expect_refused(instance, {"args.cu_seqlens_new"});
  }
  AppendInstance bounded(c);
  bounded.args.max_seqlen_new = 1;
  expect_refused(bounded, {"args.max_seqlen_new is 1", "rows"});
}

// [F234]
TEST_P(AppendContents, Room) {
  AppendCase c = base();
  c.lens = false, c.rows = 20;
  AppendInstance instance(c);
  instance.args.k_cache.shape[1] = instance.args.v_cache.shape[1] = 4;
  expect_refused(instance, {"args.k has 5 new tokens", "args.k_cache has 4 rows"});
}

// [F234]
TEST_P(AppendContents, Indices) {
  AppendCase c = base();
  c.addressing = CacheAddressing::slots32;
  const double slots = double(c.page * (3 * 3 + 1));
  expect_each_refused(c, &AppendInstance::slot_mapping, {slots, double(INT_MAX)}, "args.slot_mapping");
  c.addressing = CacheAddressing::slots64;
  expect_each_refused(c, &AppendInstance::slot_mapping, {slots, 1e15}, "args.slot_mapping");
  c.addressing = CacheAddressing::rows, c.pairs = 4, c.hq = 2, c.positions = PositionType::i64;
  expect_each_refused(c, &AppendInstance::positions, {-1, 1e15, -1e15}, "args.positions");
  c.positions = PositionType::none, c.q_positions = PositionType::i32;
  expect_each_refused(c, &AppendInstance::q_positions, {-1, INT_MAX, INT_MIN}, "args.q_positions");
  c.q_positions = PositionType::none;
  AppendInstance instance(c);
  instance.args.rotary_cos.shape[1] = instance.args.rotary_sin.shape[1] = 4;
  expect_refused(instance, {"args.rotary_cos has 4 rows", "at position", "args.positions"});
  c.addressing = CacheAddressing::pages, c.lens = false, c.sn = 20, c.page = 10;
  expect_each_refused(c, &AppendInstance::block_table, {-1, 7, INT_MAX, INT_MIN}, "args.block_table");
}

/// The positions of skipped tokens are not checked.
// [F222]
TEST_P(AppendContents, OfSkippedTokens) {
  AppendCase c = base();
  c.addressing = CacheAddressing::slots64, c.pairs = 4, c.positions = PositionType::i32;
  const AppendInstance instance(c);
  instance.slot_mapping.set(1, 2, 0, 0, -1);
  instance.positions.set(1, 2, 0, 0, INT_MAX);
  run_as_expected(instance, kernel);
}

TEST_TARGETS(AppendContents, {"f32"});

}  // namespace
}  // namespace test
