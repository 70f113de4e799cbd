// Shared by the suites of fa_append, into plain caches and into those of codes.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "reference/append.h"
#include "reference/random.h"
#include "reference/run.h"

namespace test {
using namespace reference;

/// A case of defaults, changed.
inline AppendCase with(void (*change)(AppendCase *)) {
  AppendCase c;
  change(&c);
  return c;
}

/// A way to store k and v.
struct Stored {
  const char *name;
  fa_dtype k, v;
  const char *kscale, *vscale, *kzero, *vzero;  // 0 groups: one a channel
  bool computed;
};

constexpr fa_dtype as_k = FA_DTYPE_DEFAULT;

/// Gives a call of either operation the scales and zeros of a cache.
template <class AnyCase>
void set_factors(AnyCase *c, const Stored &cache) {
  c->kscale = cache.kscale, c->vscale = cache.vscale, c->kzero = cache.kzero, c->vzero = cache.vzero;
}

/// Runs a call whose contents the test has set, and compares everything that it may write. Returns what it had to
/// write.
inline ExpectedAppend run_as_expected(const AppendInstance &instance, const std::string &kernel) {
  const std::vector<char> before = instance.outputs();
  ExpectedAppend expected(instance.desc, instance.args);
  EXPECT_EQ(append(Op(instance.desc, kernel), instance), FA_OK) << fa_last_error();
  EXPECT_EQ(difference(instance, expected, before), "") << to_text(instance.c);
  return expected;
}

inline void expect_same_bits(AppendCase c, std::initializer_list<int32_t> thread_counts, const std::string &kernel) {
  std::vector<char> expected;
  for (const int32_t threads : thread_counts) {
    c.threads = threads;
    const AppendInstance instance(c);
    ASSERT_EQ(append(Op(instance.desc, kernel), instance), FA_OK) << fa_last_error();
    if (expected.empty()) expected = instance.outputs();
    ASSERT_EQ(instance.outputs(), expected) << threads << " threads: " << to_text(c);
  }
}

/// The parts of a random case, in this order; head dimensions come between the first and the second one.
inline void choose_sizes(AppendCase *c, Random *r) {
  c->b = r->between(1, 4), c->sn = r->chance(30) ? 1 : r->between(0, 40), c->hkv = r->between(1, 4);
}

inline void choose_places(AppendCase *c, Random *r) {
  c->rows = c->sn + r->between(0, 60), c->page = r->one_of<int64_t>(1, 3, 8, 16, 64);
  c->addressing = r->one_of(CacheAddressing::rows, CacheAddressing::pages, CacheAddressing::slots32, CacheAddressing::slots64);
  c->packed = r->chance(30), c->used = r->chance(30), c->lens = r->chance(70), c->leftpad = r->chance(30);
  c->batch_idx = c->addressing == CacheAddressing::rows && r->chance(30), c->bounds = r->chance(20) && (c->packed || c->used);
  c->skipped = r->chance(50) ? 0 : r->between(1, 5), c->keys_alone = r->chance(15);
}

inline void choose_rotation(AppendCase *c, Random *r) {
  c->pairs = r->chance(50) ? c->d / 2 : r->between(1, c->d / 2);
  c->interleaved = r->chance(40), c->tail = r->chance(30), c->table = r->one_of(FA_F32, FA_F32, FA_F16, FA_BF16);
  c->lens |= c->addressing >= CacheAddressing::slots32;
}

inline Layout random_output_layout(Random *r) {
  return Layout(r->between(0, output_layout_count - 1));
}

inline void choose_the_rest(AppendCase *c, Random *r) {
  c->special = r->chance(10), c->threads = int32_t(r->between(1, 3)), c->seed = r->next() % 100000;
}

}  // namespace test
