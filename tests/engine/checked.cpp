// kernels_checked.*: every entry point of every GPU kernel in a few small calls, meant for the emulator with all its
// checks and under schedules of several seeds. They reach the edges of kernels: tiles that end early,
// columns that are zero-filled, pages, masks, splits.
#include <gtest/gtest.h>

#include <limits>

#include "engine/target.h"
#include "reference/run.h"

namespace test {
using namespace reference;
namespace {

class Checked : public EngineTest {
 protected:
  void expect_right(const Case &c) { EXPECT_EQ(failure_of(typed(c), kernel), ""); }

  /// Entry::plain: two tiles of queries, the diagonal, a last tile of keys with a few.
  static Case plain(int64_t dim) {
    Case c;
    c.sq = 130, c.sk = 150, c.d = dim, c.mask = FA_MASK_CAUSAL;
    return c;
  }

  /// Entry::score_mod: pages, a softcap and slopes, over whole tiles and others.
  static Case featured(int64_t dim) {
    Case c;
    c.sq = 70, c.sk = 150, c.d = dim, c.page = 16, c.softcap = 3, c.alibi = "h", c.mask = FA_MASK_CAUSAL, c.splits = 1;
    return c;
  }

  /// Entry::general: nothing is aligned, and scores need everything.
  static Case general(int64_t dim) {
    Case c;
    c.b = 2, c.sq = 21, c.sk = 90, c.d = dim - 3, c.dv = dim - 9, c.softcap = 2, c.boolmask = "k", c.bias = "f16:hk",
    c.alibi = "h", c.sinks = "h", c.used_k = true, c.splits = 1;
    return c;
  }

  /// From pages, whose rows are not aligned.
  static Case paged(int64_t dim) {
    Case c;
    c.b = 2, c.sq = 9, c.sk = 80, c.d = dim - 4, c.page = 7, c.mask = FA_MASK_CAUSAL, c.splits = 1;
    return c;
  }

  /// Entry::split and Entry::combine: heads of a group in one tile, large scores early, so that O is rescaled.
  static Case split(int64_t dim) {
    Case c;
    c.b = 2, c.sq = 9, c.sk = 280, c.hq = 4, c.hkv = 2, c.d = dim - 8, c.cu_q = c.cu_k = true, c.amp = 6,
    c.mask = FA_MASK_CAUSAL, c.splits = 3, c.workspace = true;
    return c;
  }

  /// Entry::decode, from pages: the results of the warps' keys are joined.
  static Case decode(int64_t dim) {
    Case c;
    c.b = 2, c.sq = 3, c.sk = 280, c.hq = 4, c.hkv = 2, c.d = dim, c.page = 5, c.amp = 6, c.mask = FA_MASK_CAUSAL,
    c.splits = 2;
    return c;
  }

  /// The kernels of the backward pass, each over more than one tile: the diagonal, a group of heads, used lengths.
  static Case gradients(int64_t dim) {
    Case c;
    c.sq = 70, c.sk = 90, c.hq = 2, c.d = dim, c.mask = FA_MASK_CAUSAL, c.used_k = true, c.backward = true;
    return c;
  }

  /// All modifications of scores, odd rows, sums over repeated bias and sinks, rows of the cache that sequences share.
  static Case gradients_of_all(int64_t dim) {
    Case c;
    c.b = 3, c.sq = 21, c.sk = 40, c.hq = 2, c.d = dim - 3, c.dv = dim - 9, c.softcap = 2, c.boolmask = "k",
    c.bias = "f16:hk", c.dbias = "k", c.sinks = c.dsinks = "h", c.batch_idx = c.used_k = true, c.dlse = true,
    c.backward = true;
    return c;
  }

  void run(int64_t dim) {
    for (const Case &c : {plain(dim), featured(dim), general(dim), paged(dim), split(dim), decode(dim)})
      expect_right(c);
    mend(plain(dim));
  }

  /// A value that is not finite: the queries before it, to which it is masked, are worked on twice and stay right.
  void mend(const Case &c) {
    const Instance instance(typed(c));
    instance.v.set(0, 140, 0, 1, std::numeric_limits<double>::quiet_NaN());
    const Op op(instance.desc, kernel);
    ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error();
    EXPECT_EQ(compare(instance, Expected(instance)), "");
  }
};

TEST_P(Checked, GradientsDim32) {
  expect_right(gradients(32));
  expect_right(gradients_of_all(32));
}
TEST_P(Checked, GradientsDim64) {
  expect_right(gradients(64));
}
TEST_P(Checked, GradientsDim128) {
  expect_right(gradients(128));
}
TEST_P(Checked, GradientsDim256) {
  expect_right(gradients(256));
}
TEST_P(Checked, Dim32) {
  run(32);
}
TEST_P(Checked, Dim64) {
  run(64);
}
TEST_P(Checked, Dim96) {
  run(96);
}
TEST_P(Checked, Dim128) {
  run(128);
}
TEST_P(Checked, Dim192) {
  run(192);
}
TEST_P(Checked, Dim256) {
  run(256);
}
TEST_P(Checked, Dim512) {
  run(512);
}
/// Latent attention: values have fewer columns than keys, the last chunk of keys is a narrow one. A group of 16 heads.
TEST_P(Checked, Dim576) {
  for (Case c : {plain(576), featured(576), general(576), paged(576), split(576), decode(576)}) {
    c.dv = 512;
    expect_right(c);
  }
  Case c = decode(576);
  c.b = 1, c.sq = 1, c.hq = 16, c.hkv = 1, c.dv = 512, c.page = 16;
  expect_right(c);
}

INSTANTIATE_TEST_SUITE_P(Engine, Checked, testing::ValuesIn(gpu_targets({"f32", "f16", "bf16"})), target_name);

}  // namespace
}  // namespace test
