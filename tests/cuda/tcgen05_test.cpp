// The family for tensor memory: which calls it takes, and blocks that work through many tiles one after another. Meant
// for a device of two multiprocessors, so that small calls have more works than blocks.
#include "cuda/works.h"

namespace cuda_test {
namespace {

constexpr const char *ours = "cuda.sm_100a.tcgen05", *others = "cuda.sm_100a.mma";

class Tcgen05 : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_built(ours)) GTEST_SKIP() << "this build has no " << ours;
  }
};

TEST_F(Tcgen05, TakesWhatItIsFor) {
  void (*const changes[])(Case *) = {
      [](Case *) {},
      [](Case *c) { c->cu_q = c->cu_k = true; },
      [](Case *c) { c->used_q = c->used_k = c->leftpad = true; },
      [](Case *c) { c->batch_idx = c->offset = true; },
      [](Case *c) { c->window_left = 20, c->sinks = "h", c->out = FA_F32; },
      [](Case *c) { c->d = 128, c->dv = 40, c->mask = FA_MASK_NONE, c->q = FA_BF16; },
      [](Case *c) { c->d = 192, c->dv = 160, c->q = FA_BF16; },
      [](Case *c) { c->d = 96, c->chunk = 32; },
      [](Case *c) { c->page = 16; },
      [](Case *c) { c->page = 256, c->used_k = c->cu_q = true; },
      [](Case *c) { c->page = 1; },
      [](Case *c) { c->page = 12, c->used_k = true, c->dv = 40; },
      [](Case *c) { c->page = 16, c->leftpad = c->used_k = true; },
      [](Case *c) { c->splits = 2; },
      [](Case *c) { c->hq = 8, c->sq = 9; },  // heads of a group in a tile
      [](Case *c) { c->hq = 6, c->sq = 20; },
      [](Case *c) { c->hq = 14, c->sq = 10, c->splits = 2; },
  };
  for (const auto change : changes) {
    Case c = base_case();
    change(&c);
    std::string log;
    EXPECT_EQ(run(c, &log), "");
    EXPECT_NE(log.find(std::string("call: ") + ours + " fa_forward_plain"), std::string::npos) << log;
  }
}

TEST_F(Tcgen05, NarrowValues) {
  Case c = base_case();
  c.q = FA_BF16, c.sq = 140, c.d = 192, c.dv = 128;
  std::string log;
  EXPECT_EQ(run(c, &log), "");
  EXPECT_NE(log.find(std::string("call: ") + ours + " fa_forward_narrow"), std::string::npos) << log;
}

/// Narrow tiles have twice the rows of plain ones, and splits of few rows leave twice as much.
TEST_F(Tcgen05, TheWorkspaceHoldsSplitsOfNarrowTiles) {
  Case c = base_case();
  c.q = FA_BF16, c.sq = 100, c.sk = 300, c.d = 192, c.dv = 128, c.splits = 2;
  const InContext in;
  Call own(c);
  const Op op(desc_of(c));
  ASSERT_EQ(fa_forward_workspace_size(op.op, &own.args, &own.args.workspace_size), FA_OK) << fa_last_error();
  CUdeviceptr workspace;
  ASSERT_EQ(call("cuMemAlloc_v2", &workspace, own.args.workspace_size), CUDA_SUCCESS);
  own.args.workspace = reinterpret_cast<void *>(workspace);
  EXPECT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
  EXPECT_EQ(own.failure(), "");
  EXPECT_EQ(call("cuMemFree_v2", workspace), CUDA_SUCCESS);
}

/// Two tiles of 128 rows would occupy both multiprocessors; a narrow one, which has 256, occupies one, so that keys are
/// shared out.
TEST_F(Tcgen05, SplitsFollowFromNarrowTiles) {
  Case c = base_case();
  c.b = 1, c.q = FA_BF16, c.sq = 256, c.sk = 600, c.hq = c.hkv = 1, c.d = 192, c.dv = 128, c.mask = FA_MASK_NONE;
  c.splits = 0;
  std::string log;
  EXPECT_EQ(run(c, &log), "");
  EXPECT_NE(log.find(std::string("call: ") + ours + " fa_forward_narrow, 2 splits"), std::string::npos) << log;
}

TEST_F(Tcgen05, Features) {
  void (*const changes[])(Case *) = {
      [](Case *c) { c->softcap = 3; },
      [](Case *c) { c->alibi = "h"; },
      [](Case *c) { c->softcap = 3, c->alibi = "bh", c->q = FA_BF16, c->d = 128; },
      [](Case *c) { c->softcap = 5, c->page = 16, c->splits = 2, c->used_k = true; },
      [](Case *c) { c->alibi = "h", c->hq = 8, c->sq = 9, c->offset = true; },  // heads of a group in a tile
  };
  for (const auto change : changes) {
    Case c = base_case();
    change(&c);
    std::string log;
    EXPECT_EQ(run(c, &log), "");
    EXPECT_NE(log.find(std::string("call: ") + ours + " fa_forward_score_mod"), std::string::npos) << log;
  }
}

TEST_F(Tcgen05, LeavesTheOthersToMma) {
  struct Way {
    const char *why;
    void (*change)(Case *);
  };
  const Way ways[] = {
      {"a softcap above 256", [](Case *c) { c->softcap = 300; }},
      {"a mask", [](Case *c) { c->boolmask = "k"; }},
      {"few rows of heads that its tiles do not pack", [](Case *c) { c->sq = 20, c->hq = 131, c->hkv = 1; }},
      {"the family does not have it", [](Case *c) { c->sq = 3, c->splits = 2; }},  // decode
      {"rows of out that are not whole multiples of 16 bytes", [](Case *c) { c->dv = 44; }},
      {"q, k or v whose rows are not whole multiples of 16 bytes", [](Case *c) { c->d = 44, c->dv = 64; }},
  };
  for (const Way &way : ways) {
    Case c = base_case();
    way.change(&c);
    std::string log;
    EXPECT_EQ(run(c, &log), "");
    EXPECT_NE(log.find(std::string("call: ") + others), std::string::npos) << log;
    EXPECT_NE(log.find(std::string("not ") + ours), std::string::npos) << log;
    EXPECT_NE(log.find(way.why), std::string::npos) << log;
  }
}

/// Two works a block, whose keys go round the stages.
Case round_case(int64_t dim, fa_dtype type, int64_t keys) {
  Case c = long_case(dim, type);
  c.b = 2, c.sk = keys;
  return c;
}

TEST_F(Tcgen05, ManyWorksOf64Columns) {
  work_through(round_case(64, FA_BF16, 600), 520);
}
TEST_F(Tcgen05, ManyWorksOf128Columns) {
  work_through(round_case(128, FA_F16, 450), 380);
}

/// A work has one tile of queries, and every other tile of keys has the same scores' place.
TEST_F(Tcgen05, ManyWorksOf256Columns) {
  Case c = round_case(256, FA_BF16, 330);
  c.sq = 140, c.hq = 1;
  work_through(c, 300);
}

TEST_F(Tcgen05, ManyWorksOfNarrowValues) {
  Case c = round_case(192, FA_BF16, 330);
  c.dv = 128, c.hq = 1;
  work_through(c, 300);
}

/// Both tiles of a work have rows, or the second one none or a few.
TEST_F(Tcgen05, ManyWorksOfTwoTiles) {
  Case c = long_case(64, FA_F16);
  c.sq = 400, c.sk = 300, c.hq = 1, c.cu_q = true;
  work_through(c, 220);
}

/// Each block has several works of a group's heads; the last page of a sequence has rows that are not its own.
TEST_F(Tcgen05, ManyWorksFromPages) {
  Case c = base_case();
  c.sq = 40, c.sk = 300, c.hq = 8, c.q = FA_BF16, c.page = 32, c.splits = 2;
  work_through(c, 31);
}

/// The same of pages that no boxes fit, in tiles that three heads do not fill.
TEST_F(Tcgen05, ManyWorksFromOddPages) {
  Case c = base_case();
  c.sq = 50, c.sk = 300, c.hq = 6, c.q = FA_BF16, c.page = 12, c.splits = 2;
  work_through(c, 11);
}

TEST_F(Tcgen05, ManyWorksInAWindow) {
  Case c = long_case(64, FA_F16);
  c.window_left = 300, c.used_k = true;
  work_through(c, 300);
}

/// A key whose weights are polynomials, which know neither NaN nor infinity: the sums of its rows do.
void expect_special_scores(fa_dtype type) {
  for (const double element : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const Case c = long_case(64, type);
    const InContext in;
    Call own(c);
    const Op op(desc_of(c));
    constexpr int64_t key = 550;  // column 38 of a tile: the 20th pair, where one in four or five is a polynomial
    own.instance.k.set(1, key, 0, 3, element);
    own.update(own.instance.k);
    ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
    EXPECT_EQ(own.failure(), "");
  }
}

TEST_F(Tcgen05, ManyWorksWithoutNumbers) {
  expect_special_scores(FA_F16);
}
TEST_F(Tcgen05, ManyWorksWithoutNumbersInBf16) {
  expect_special_scores(FA_BF16);
}

/// A score far above those of the tiles before it: its row's reference moves, or the row is worked on again. One key
/// has a polynomial, the other one none.
TEST_F(Tcgen05, ManyWorksOfRisingScores) {
  for (const int64_t key : {550, 545})
    for (const double rise : {6.0, 12.0, 20.0, 50.0, 150.0}) {
      const Case c = long_case(64, FA_BF16);
      const InContext in;
      Call own(c);
      const Op op(desc_of(c));
      for (int64_t b = 0; b < c.b; b++) {
        for (int64_t row = 0; row < c.sq; row++)
          for (int64_t head = 0; head < c.hq; head++) own.instance.q.set(b, row, head, 0, row % 3 == 0 ? 0 : 8);
        for (int64_t j = 0; j < c.sk; j++) own.instance.k.set(b, j, 0, 0, j == key ? rise : 0);
      }
      own.update(own.instance.q), own.update(own.instance.k);
      ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
      EXPECT_EQ(own.failure(), "") << "a score of " << rise << " at key " << key;
    }
}

}  // namespace
}  // namespace cuda_test
