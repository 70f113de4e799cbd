// tree.*: trees of new tokens against the oracle, at the lengths where words of bits end, against the causal mask (on
// the CPU, bit by bit), and against each token's own path as a sequence.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/features.h"
#include "engine/target.h"
#include "reference/compare.h"
#include "reference/gpu.h"
#include "reference/oracle.h"
#include "reference/run.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

class Trees : public EngineTest {
 protected:
  void check(Case c) {
    c = typed(c, count_);
    c.seed = ++count_;
    if (!in_shard(c.seed)) return;
    EXPECT_EQ(failure_of(c, kernel), "");
  }

  Case base(int64_t b, int64_t sq, int64_t sk, int64_t hq, int64_t hkv, int64_t d) {
    Case c;
    c.b = b, c.sq = sq, c.sk = sk, c.hq = hq, c.hkv = hkv, c.d = d, c.mask = FA_MASK_CAUSAL, c.tree = "bh:tree";
    return c;
  }

  void run(const Instance &instance) {
    const Op op(instance.desc, kernel);
    ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error() << "\n" << repeat_line(instance.c, kernel);
  }

  uint64_t count_ = 0;
};

// [F270] [F271] [F272] [F281]
TEST_P(Trees, LengthsAroundWordsAndBlocks) {
  const char *const trees[] = {"bh:tree", "none:tree", "b:any", "h:path"};
  const char *const depths[] = {"", "b", "", "none"};
  for (const int64_t tokens : {1, 2, 7, 8, 31, 32, 33, 63, 65, 97, 130})
    for (const int64_t keys : {tokens / 2, tokens, tokens + 1, tokens + 100, int64_t{300}}) {
      const int64_t heads = 1 << count_ % 4;
      Case c = base(1 + int64_t(count_ % 2), tokens, keys, heads, heads > 4 ? 2 : 1, 16);
      c.tree = trees[count_ % 4], c.depths = depths[count_ / 4 % 4];
      check(c);
    }
}

/// Windows and chunks that end before, within and behind the new keys.
// [F273] [F274]
TEST_P(Trees, WindowsAndChunks) {
  for (const int64_t tokens : {3, 40, 70})
    for (const char *const depths : {"", "b"})
      for (const char *const tree : {"bh:tree", "h:any"}) {
        for (const int64_t left : {0, 1, 4, 20, 200})
          for (const int64_t right : {-1, 0, 2, 30}) {
            Case c = base(1, tokens, 150, 2, 1, 16);
            c.tree = tree, c.depths = depths, c.window_left = left, c.window_right = right;
            check(c);
          }
        for (const int64_t chunk : {1, 2, 16, 64, 300}) {
          Case c = base(2, tokens, 150, 2, 2, 16);
          c.tree = tree, c.depths = depths, c.chunk = chunk, c.alibi = "h";
          check(c);
        }
      }
}

/// One key/value head over many keys, whose splits are separate items, and a window that leaves few of them.
// [F270] [F274]
TEST_P(Trees, SplitsOverLongPrefixes) {
  for (const int64_t tokens : {1, 4, 8, 40})
    for (const int64_t keys : {1024 + tokens / 2, int64_t{2500}, int64_t{4096}})
      for (const int32_t splits : {0, 3}) {
        if (slow && keys > 2000) continue;
        Case c = base(2, tokens, keys, 8, 1, 16);
        c.threads = 3, c.splits = splits, c.used_k = tokens % 8 == 0, c.depths = tokens == 4 ? "b" : "";
        check(c);
        c.window_left = 70, c.page = 16;
        check(c);
      }
}

/// NaN and infinities of masked new tokens show nowhere.
// [F18] [F24]
TEST_P(Trees, MaskedTokensDoNotShow) {
  for (const int64_t tokens : {4, 33, 100})
    for (const char *const tree : {"bh:tree", "h:any"})
      for (const char *const depths : {"", "b"}) {
        Case c = base(2, tokens, tokens + 60, 4, 2, 24);
        c.tree = tree, c.depths = depths, c.special = true;
        check(c);
        c.window_left = 3, c.boolmask = "bqk";
        check(c);
      }
}

/// Depths move positions, and no column of a bias or a mask.
// [F275]
TEST_P(Trees, ColumnsOfBiasAndMaskCountKeys) {
  for (const int64_t tokens : {5, 40}) {
    Case c = base(2, tokens, tokens + 70, 2, 1, 16);
    c.depths = "b", c.bias = "f32:bhqk";
    check(c);
    c.bias = "", c.boolmask = "bqk", c.window_left = 12;
    check(c);
  }
}

/// Offsets leave some of the tree's keys out, or all of them, or put keys behind it.
// [F271] [F272]
TEST_P(Trees, Offsets) {
  for (int i = 0; i < 40; ++i) {
    Case c = base(3, 5 + 7 * (i % 6), 40, 2, 1, 16);
    c.offset = true, c.far = i % 4 == 3, c.depths = i % 2 ? "b" : "", c.tree = i % 3 ? "bh:tree" : "bh:any";
    if (i % 5 == 0) c.alibi = "h";
    if (i % 5 == 1) c.window_left = 9;
    if (i % 5 == 2) c.chunk = 11;
    if (i % 7 == 0) c.mask = FA_MASK_CAUSAL_TOP_LEFT;
    check(c);
  }
}

/// A tree of one path, with the depths that follow from it or without, next to the causal mask with each feature.
// [F276]
TEST_P(Trees, APathHasTheBitsOfTheCausalMask) {
  for (const Case &plain : bases())
    for (const Feature &feature : features()) {
      SCOPED_TRACE(feature.name);
      Case c = typed(plain, count_++);
      feature.add(&c);
      if (c.mask == FA_MASK_NONE) c.mask = FA_MASK_CAUSAL;
      c.tree = c.depths = "";
      if (!refused(c).empty() || !in_shard(count_)) continue;
      Case path = c;
      path.tree = "bh:path", path.depths = count_ % 2 ? "b" : "";
      if (is_gpu(kernel)) {  // whose kernel may be another one
        EXPECT_EQ(failure_of(path, kernel), "");
        continue;
      }
      const Instance causal(c), tree(path);
      run(causal);
      run(tree);
      ASSERT_EQ(same_outputs(causal, tree, kernel), "");
    }
}

/// Whether token i has the bit of token n.
bool has_bit(const Instance &tree, int64_t head, int64_t i, int64_t n) {
  return uint32_t(int32_t(tree.tree_mask.get(0, head, i, n / 32))) >> n % 32 & 1;
}

/// Each token of a tree against its path alone: a query over the prefix and the keys of its ancestors, one after
/// another.
// [F270] [F273] [F274]
TEST_P(Trees, TokensAgreeWithTheirPaths) {
  constexpr int64_t prefix = 50;
  for (const int64_t tokens : {1, 6, 40}) {
    Case c = typed(base(1, tokens, prefix + tokens, 4, 2, 32), count_++);
    c.tree = "none:tree", c.depths = "b", c.alibi = "h", c.window_left = 20, c.seed = count_;
    const Instance tree(c);
    run(tree);
    const reference::Result r = reference::attention(tree.desc, tree.args);
    for (int64_t i = 0; i < tokens; ++i) {
      std::vector<int64_t> keys;
      for (int64_t j = 0; j < prefix + tokens; ++j)
        if (j < prefix || has_bit(tree, 0, i, j - prefix)) keys.push_back(j);
      Case alone = c;
      alone.tree = alone.depths = "", alone.sq = 1, alone.sk = int64_t(keys.size());
      const Instance path(alone);
      const auto copy = [&](const Tensor &from, const Tensor &to, auto row) {
        to.each([&](int64_t b, int64_t j, int64_t h, int64_t d, int64_t) {
          to.set(b, j, h, d, from.get(b, row(j), h, d));
        });
      };
      copy(tree.q, path.q, [&](int64_t) { return i; });
      copy(tree.k, path.k, [&](int64_t j) { return keys[size_t(j)]; });
      copy(tree.v, path.v, [&](int64_t j) { return keys[size_t(j)]; });
      run(path);
      path.out.each([&](int64_t, int64_t, int64_t h, int64_t d, int64_t) {
        ASSERT_NEAR(path.out.get(0, 0, h, d), tree.out.get(0, i, h, d), 3 * out_bound(c, r, r.head(0, i, h), d))
            << "token " << i << " of\n"
            << repeat_line(c, kernel);
      });
    }
  }
}

/// Depths are checked before anything is written; on a GPU, sequences of other depths have their results.
// [F277] [F282]
TEST_P(Trees, DepthsOutOfRange) {
  for (const int32_t depth : {-1, 7, INT32_MAX, INT32_MIN}) {
    Case c = typed(base(2, 7, 20, 2, 1, 16));
    c.depths = "b", c.alibi = "h";
    const Instance instance(c);
    instance.tree_depth.set(1, 4, 0, 0, depth);
    const Op op(instance.desc, kernel);
    if (is_gpu(kernel)) {
      const Instance right(c);
      run(right);
      ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error();
      right.out.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) {
        if (b == 0) {
          ASSERT_EQ(instance.out.get(b, i, h, d), right.out.get(b, i, h, d));
        }
      });
      continue;
    }
    EXPECT_EQ(forward(op, instance), FA_ERROR_INVALID_ARGUMENT);
    const std::string text = fa_last_error(), named = "args.tree_depth[1][4] is " + std::to_string(depth);
    EXPECT_NE(text.find(named + ": expected 0 .. 6"), std::string::npos) << text;
    EXPECT_EQ(instance.out.untouched_outside(std::vector<char>(instance.written_rows().size(), 0)), "");
  }
}

TEST_ALL_TARGETS(Trees, all_types);

}  // namespace
}  // namespace test
