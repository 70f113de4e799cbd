// The family for tensor memory: which calls it takes, and blocks with many work tiles.
#include "cuda/persistent.h"

namespace cuda_test {
namespace {

constexpr const char *ours = "cuda.sm_100a.tcgen05";

class Tcgen05 : public PersistentFamily {
 protected:
  Tcgen05() : PersistentFamily(ours, "cuda.sm_100a.mma") {}
};

TEST_F(Tcgen05, TakesWhatItIsFor) {
  constexpr Change dims[] = {
      [](Case *c) { c->d = 128, c->dv = 40, c->mask = FA_MASK_NONE, c->q = FA_BF16; },
      [](Case *c) { c->d = 192, c->dv = 160, c->q = FA_BF16; },
      [](Case *c) { c->d = 96, c->chunk = 32; },
  };
  for (const Change change : plain_changes) expect_runs_on("fa_forward_plain", changed(change));
  for (const Change change : dims) expect_runs_on("fa_forward_plain", changed(change));
}

TEST_F(Tcgen05, NarrowValues) {
  Case c = base_case();
  c.q = FA_BF16, c.sq = 140, c.d = 192, c.dv = 128;
  expect_runs_on("fa_forward_narrow", c);
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
  c.b = 1, c.q = FA_BF16, c.sq = 256, c.sk = 1000, c.hq = c.hkv = 1, c.d = 192, c.dv = 128, c.mask = FA_MASK_NONE;
  c.splits = 0;
  expect_runs_on("fa_forward_narrow, 2 splits", c);
}

TEST_F(Tcgen05, Features) {
  constexpr Change changes[] = {
      [](Case *c) { c->softcap = 3; },
      [](Case *c) { c->alibi = "h"; },
      [](Case *c) { c->softcap = 3, c->alibi = "bh", c->q = FA_BF16, c->d = 128; },
      [](Case *c) { c->softcap = 5, c->page = 16, c->splits = 2, c->used_k = true; },
      [](Case *c) { c->alibi = "h", c->hq = 8, c->sq = 9, c->offset = true; },  // heads of a group in a tile
  };
  for (const Change change : changes) expect_runs_on("fa_forward_score_mod", changed(change));
}

TEST_F(Tcgen05, LeavesTheOthersToMma) {
  for (const Unsupported &unsupported : unsupported_changes) expect_left_to_others(unsupported);
  expect_left_to_others(
      {"few rows of heads that its tiles do not pack", [](Case *c) { c->sq = 20, c->hq = 131, c->hkv = 1; }});
}

/// Two work tiles a block, whose keys pass through all stages.
Case round_case(int64_t dim, fa_dtype type, int64_t keys) {
  Case c = long_case(dim, type);
  c.b = 2, c.sk = keys;
  return c;
}

TEST_F(Tcgen05, ManyTilesOf64Columns) {
  run_with_nan_at(520, round_case(64, FA_BF16, 600));
}
TEST_F(Tcgen05, ManyTilesOf128Columns) {
  run_with_nan_at(380, round_case(128, FA_F16, 450));
}

TEST_F(Tcgen05, ManyTilesWithASplitRemainder) {
  run_with_split_remainder(base_case());
}

/// A work tile has one tile of queries, and every other tile of keys has its scores at the same place.
TEST_F(Tcgen05, ManyTilesOf256Columns) {
  Case c = round_case(256, FA_BF16, 330);
  c.sq = 140, c.hq = 1;
  run_with_nan_at(300, c);
}

TEST_F(Tcgen05, ManyTilesOfNarrowValues) {
  Case c = round_case(192, FA_BF16, 330);
  c.dv = 128, c.hq = 1;
  run_with_nan_at(300, c);
}

/// Both tiles of queries of a work tile have rows, or the second one none or a few.
TEST_F(Tcgen05, ManyTilesOfTwoTiles) {
  Case c = long_case(64, FA_F16);
  c.sq = 400, c.sk = 300, c.hq = 1, c.cu_q = true;
  run_with_nan_at(220, c);
}

/// A block processes 256 work tiles, some of them twice, and leaves the rest to one that begins after it.
TEST_F(Tcgen05, ManyTilesThatABlockLeavesToOthers) {
  Case c = base_case();
  c.sq = 60, c.sk = 70, c.hq = c.hkv = 300;
  run_with_nan_at(60, c);
}

TEST_F(Tcgen05, ManyTilesFromPages) {
  run_with_nan_at(31, pages_case());
}
TEST_F(Tcgen05, ManyTilesFromOddPages) {
  run_with_nan_at(11, odd_pages_case());
}
TEST_F(Tcgen05, ManyTilesInAWindow) {
  run_with_nan_at(300, window_case());
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

TEST_F(Tcgen05, ManyTilesWithoutNumbers) {
  expect_special_scores(FA_F16);
}
TEST_F(Tcgen05, ManyTilesWithoutNumbersInBf16) {
  expect_special_scores(FA_BF16);
}

/// A score far above those of the tiles before it: its row's reference moves, or the row is computed again. One key
/// has a polynomial, the other one none.
TEST_F(Tcgen05, ManyTilesOfRisingScores) {
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
