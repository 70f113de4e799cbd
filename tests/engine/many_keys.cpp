// many_keys.*: the effects of many keys: windows wider than a tile of rows and its keys, lengths between a few
// thousand keys and 70,000, windows beyond 2^16 keys, splits by the hundred, the largest window
// sides.
#include <gtest/gtest.h>

#include "engine/target.h"
#include "reference/run.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

class ManyKeys : public EngineTest {
 protected:
  void check(Case c) {
    c = typed(c, count_);
    if (has_wide_family()) c.d = 64;
    c.seed = ++count_;
    if (!in_shard(c.seed)) return;
    EXPECT_EQ(failure_of(c, kernel), "");
  }

 private:
  uint64_t count_ = 0;
};

/// One head for each of q, k and v and one split: on a GPU the kernel for plain calls.
Case plain(int64_t sq, int64_t sk) {
  Case c;
  c.sq = sq, c.sk = sk, c.d = 32, c.splits = 1;
  return c;
}

/// Some tiles of keys are attended by every row of a tile of rows, and both windows' sides cut tiles in two.
TEST_P(ManyKeys, WindowsWiderThanATile) {
  for (const int64_t left : {-1, 288, 301, 350}) {
    for (const int64_t right : {-1, 0, 289, 310}) {
      Case c = plain(slow ? 200 : 420, 900);
      c.window_left = left, c.window_right = right;
      check(c);
      c.mask = FA_MASK_CAUSAL;
      if (right < 0) check(c);
    }
  }
}

/// Calls that a GPU computes in the plain loop, too: pages of any size, a softcap and slopes, over whole tiles and
/// others.
TEST_P(ManyKeys, PagesCapsAndSlopes) {
  for (const int64_t page : {0, 1, 7, 16, 48, 64, 200, 1024}) {
    for (const bool causal : {false, true}) {
      Case c = plain(140, 400);
      c.b = 2, c.d = 64, c.page = page, c.used_k = true;
      if (causal) c.mask = FA_MASK_CAUSAL, c.offset = true;
      check(c);
      c.leftpad = true, c.softcap = 3, c.amp = 4;
      check(c);
      c.window_left = 190, c.alibi = "h";
      check(c);
      c.softcap = 0, c.hq = 4, c.hkv = 2, c.amp = 1, c.sinks = "h", c.alibi = "";
      check(c);
    }
  }
}

TEST_P(ManyKeys, ThousandsOfKeys) {
  for (const int64_t keys : {4095, 4097, 9000, 33000}) {
    if (slow && keys > 9000) continue;
    for (const int64_t queries : {1, 20}) {
      Case c;
      c.sq = queries, c.sk = keys, c.hq = 2, c.hkv = 1, c.d = 16, c.mask = FA_MASK_CAUSAL, c.threads = 2;
      check(c);
      c.chunk = 2000, c.softcap = 3;
      check(c);
    }
  }
}

TEST_P(ManyKeys, WindowsBeyondSixteenBits) {
  for (const int64_t queries : {20, 1}) {
    Case c = plain(queries, 70000);
    c.d = 16, c.window_left = 66000, c.window_right = 0;
    check(c);
    if (slow) break;
    c.window_left = 65535, c.window_right = 65536, c.mask = FA_MASK_CAUSAL_TOP_LEFT, c.offset = true;
    check(c);
  }
}

/// More than a warp has lanes, and more than the engines choose by themselves.
TEST_P(ManyKeys, SplitsByTheHundred) {
  for (const int32_t splits : {41, 64, 200}) {
    for (const int64_t queries : {1, 18}) {
      Case c;
      c.sq = queries, c.sk = 128 * splits + 1, c.hq = 2, c.hkv = 1, c.d = 16, c.splits = splits, c.sinks = "h";
      c.threads = 2, c.workspace = true;
      check(c);
    }
  }
}

/// A window side that reaches every key equals an open one, to the bit, whatever its value.
TEST_P(ManyKeys, TheLargestWindowSides) {
  Case open = typed(plain(70, 400));
  if (has_wide_family()) open.d = 64;
  open.b = 2, open.offset = true;
  const Instance expected(open);
  const Op op(expected.desc, kernel);
  ASSERT_EQ(forward(op, expected), FA_OK) << fa_last_error();
  for (const int64_t side : {int64_t{INT32_MAX} - 1, int64_t{INT32_MAX}, int64_t{INT32_MAX} + 1, int64_t{1} << 32,
                             (int64_t{1} << 33) - 1, int64_t{1} << 33, INT64_MAX}) {
    for (const bool left : {true, false}) {
      for (const bool both : {true, false}) {
        Instance wide(open);
        if (left || both) wide.c.window_left = wide.desc.window_left = side;
        if (!left || both) wide.c.window_right = wide.desc.window_right = side;
        const Op windowed(wide.desc, kernel);
        ASSERT_EQ(forward(windowed, wide), FA_OK) << fa_last_error();
        EXPECT_EQ(same_outputs(expected, wide, kernel), "") << side;
      }
    }
  }
}

TEST_ALL_TARGETS(ManyKeys, {"f32", "f16", "bf16"});

}  // namespace
}  // namespace test
