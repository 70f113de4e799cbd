// The family for warpgroups: which calls it takes, and blocks with many work tiles.
#include <algorithm>

#include "cuda/graph.h"
#include "cuda/persistent.h"

namespace cuda_test {
namespace {

constexpr const char *ours = "cuda.sm_90a.wgmma", *others = "cuda.sm_90a.mma";

class Wgmma : public PersistentFamily {
 protected:
  Wgmma() : PersistentFamily(ours, others) {}
};

void run_right(const Case &c) {
  std::string log;
  EXPECT_EQ(run(c, &log), "");
}

TEST_F(Wgmma, TakesWhatItIsFor) {
  constexpr Change more[] = {
      [](Case *c) { c->d = 96, c->dv = 40, c->mask = FA_MASK_NONE, c->q = FA_BF16; },
      [](Case *c) { c->chunk = 32; },
  };
  for (const Change change : plain_changes) expect_runs_on("fa_forward_plain", changed(change));
  for (const Change change : more) expect_runs_on("fa_forward_plain", changed(change));
}

TEST_F(Wgmma, TakesSoftcapsAndSlopes) {
  for (const bool cap : {true, false}) {
    Case c = base_case();
    c.hq = 4, c.sq = 20, c.sk = 100, c.page = 32, (cap ? c.softcap : c.amp) = 3, c.alibi = cap ? "" : "h";
    expect_runs_on("fa_forward_score_mod", c);
  }
}

TEST_F(Wgmma, LeavesTheOthersToMma) {
  for (const Unsupported &unsupported : unsupported_changes) expect_left_to_others(unsupported);
  expect_left_to_others(
      {"few rows of heads that its tiles do not pack", [](Case *c) { c->sq = 20, c->hq = 71, c->hkv = 1; }});
}

/// Strides that a tensor map cannot have: the call runs all the same.
TEST_F(Wgmma, StridesWithoutTensorMaps) {
  const InContext in;
  const Case c = base_case();
  const Op op(desc_of(c));
  for (const int64_t stride : {int64_t{0}, int64_t{-64}}) {
    Call own(c);
    own.args.v.stride[2] = stride;  // the second head is the first one's, or is before it
    if (stride < 0) own.args.v.data = static_cast<char *>(own.args.v.data) + 64 * 2;
    Log said;
    EXPECT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
    EXPECT_NE(said.text.find(std::string("call: ") + others), std::string::npos) << said.text;
    EXPECT_NE(said.text.find("q, k or v with a stride that is 0 or negative"), std::string::npos) << said.text;
  }
}

/// More work tiles than a block has bits for, which are 64: the first ones and the last ones must be computed again.
TEST_F(Wgmma, MoreTilesThanBits) {
  const InContext in;
  Case c = base_case();
  c.hq = c.hkv = std::max<int64_t>(1040, 33 * multiprocessors()), c.sk = 72, c.d = 40, c.q = FA_BF16;
  Call own(c);
  for (const int64_t head : {int64_t{0}, int64_t{1}, c.hq / 2 - 3, c.hq - 1})
    for (const int64_t b : {0, 1})
      own.instance.v.set(b, 50, head, 3, std::numeric_limits<double>::quiet_NaN());  // hidden from the first 48 rows
  own.update(own.instance.v);
  const Op op(desc_of(c));
  Log said;
  ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
  EXPECT_EQ(own.failure(), "");
  EXPECT_NE(said.text.find(ours), std::string::npos) << said.text;
}

TEST_F(Wgmma, ManyTilesOf64Columns) {
  run_with_nan_at(620, long_case(64, FA_BF16));
}
TEST_F(Wgmma, ManyTilesOf96Columns) {
  run_with_nan_at(620, long_case(96, FA_F16));
}
TEST_F(Wgmma, ManyTilesOf128Columns) {
  run_with_nan_at(620, long_case(128, FA_F16));
}

TEST_F(Wgmma, ManyTilesWithASplitRemainder) {
  run_with_split_remainder(base_case());
}

/// Work tiles of different lengths, three a head, and more of them than the device has multiprocessors; by its bounds,
/// a long call.
Case uneven_case() {
  Case c = base_case();
  c.b = 1, c.hq = multiprocessors() / 3 + 3, c.hkv = 1, c.sq = 300, c.sk = 1050, c.d = 128, c.used_k = true;
  return c;
}

/// Has as many keys as queries: few, for the emulator.
void use_few_keys(Call *own) {
  Instance &i = own->instance;
  i.seqused_k[0] = 300;
  i.k.randomise(7, 2, 1), i.v.randomise(7, 3, 1);  // those behind the instance's own length were not finite
  own->update(i.seqused_k), own->update(i.k), own->update(i.v);
}

/// A workspace of a call that is full of ones, so that its first ticket would be the last of all.
class FullWorkspace {
 public:
  FullWorkspace(const Op &op, fa_forward_args *args) {
    EXPECT_EQ(fa_forward_workspace_size(op.op, args, &args->workspace_size), FA_OK) << fa_last_error();
    EXPECT_GE(args->workspace_size, 4u);
    EXPECT_EQ(call("cuMemAlloc_v2", &address_, args->workspace_size), CUDA_SUCCESS);
    EXPECT_EQ(call("cuMemsetD8_v2", address_, static_cast<unsigned char>(0x7f), args->workspace_size), CUDA_SUCCESS);
    args->workspace = reinterpret_cast<void *>(address_);
  }
  ~FullWorkspace() { call("cuMemFree_v2", address_); }
  FullWorkspace(const FullWorkspace &) = delete;
  FullWorkspace &operator=(const FullWorkspace &) = delete;

 private:
  CUdeviceptr address_ = 0;
};

/// Blocks take the next work tile when they are free. Values that are not finite are in work tiles that the fix-up pass
/// must find again. Each launch begins with the first ticket, wherever the last one ended.
TEST_F(Wgmma, ManyTilesByTickets) {
  const InContext in;
  const Case c = uneven_case();
  const Op op(desc_of(c));
  Call own(c);
  use_few_keys(&own);
  own.instance.v.set(0, 250, 0, 3, std::numeric_limits<double>::quiet_NaN());
  own.update(own.instance.v);
  const FullWorkspace workspace(op, &own.args);
  for (int round = 0; round < 2; round++) {
    own.instance.clear_outputs();
    own.update(own.instance.out);
    Log said;
    ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
    EXPECT_EQ(own.failure(), "");
    EXPECT_NE(said.text.find("by tickets"), std::string::npos) << said.text;
  }
}

/// So does each replay.
TEST_F(Wgmma, ManyTilesByTicketsInAGraph) {
  const InContext in;
  const Stream stream;
  const Case c = uneven_case();
  const Op op(desc_of(c));
  Call own(c);
  use_few_keys(&own);
  own.args.stream = stream.handle;
  const FullWorkspace workspace(op, &own.args);
  const Graph graph(op, own.args);
  ASSERT_EQ(graph.status, FA_OK) << fa_last_error();
  EXPECT_EQ(graph.nodes, 2u);  // clear, kernel
  for (int round = 0; round < 2; round++) {
    own.instance.clear_outputs();
    own.update(own.instance.out);
    ASSERT_EQ(graph.launch(stream.handle), CUDA_SUCCESS);
    EXPECT_EQ(own.failure(), "");
  }
}

/// Without a workspace their counter is memory of the stream.
TEST_F(Wgmma, ManyTilesByTicketsWithoutAWorkspace) {
  std::string log;
  EXPECT_EQ(run(uneven_case(), &log), "");
  EXPECT_NE(log.find("by tickets"), std::string::npos) << log;
}

TEST_F(Wgmma, ManyTilesOf192Columns) {
  Case c = long_case(192, FA_BF16);
  c.b = 2, c.hq = 1, c.sk = 400;  // wide tiles take the emulator long
  run_with_nan_at(320, c);
}

TEST_F(Wgmma, ManyTilesOf256Columns) {
  Case c = long_case(256, FA_F16);
  c.b = 2, c.hq = 1, c.sk = 300;
  run_with_nan_at(250, c);
}

/// Two warpgroups with the same rows.
TEST_F(Wgmma, ManyTilesOf512Columns) {
  Case c = long_case(512, FA_BF16);
  c.b = 2, c.hq = 1, c.sq = 150, c.sk = 300;
  run_with_nan_at(220, c);
}

TEST_F(Wgmma, ManyTilesOf576Columns) {
  Case c = long_case(576, FA_F16);
  c.b = 2, c.hq = 1, c.sq = 150, c.sk = 300, c.dv = 512;
  run_with_nan_at(220, c);
}

/// DeepSeek's decode: the values are the first columns of the keys, and are not read again. Those that are not finite
/// are hidden from some rows.
void run_latent(const Case &c) {
  const InContext in;
  Call own(c);
  const Op op(desc_of(c));
  const reference::Tensor &k = own.instance.k, &v = own.instance.v;
  const int64_t last = k.view().shape[0] - 1, rows = k.view().shape[1];
  k.set(last, rows / 2, 0, 3, std::numeric_limits<double>::infinity());
  k.set(last, rows - 2, 0, 511, std::numeric_limits<double>::quiet_NaN());
  k.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) {
    if (d < c.dv) v.set(i, j, h, d, k.get(i, j, h, d));
  });
  own.update(k);
  own.args.v = own.args.k;
  own.args.v.shape[3] = c.dv;
  Log said;
  ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
  EXPECT_EQ(own.failure(), "");
  EXPECT_NE(said.text.find(std::string(ours) + " fa_forward_narrow"), std::string::npos) << said.text;
}

TEST_F(Wgmma, LatentValuesOfBf16) {
  Case c = base_case();
  c.sq = 5, c.sk = 300, c.hq = 32, c.hkv = 1, c.d = 576, c.dv = 512, c.q = FA_BF16;
  run_latent(c);
}

TEST_F(Wgmma, LatentValuesInPartsOnPages) {
  Case c = base_case();
  c.sq = 2, c.sk = 300, c.hq = 64, c.hkv = 1, c.d = 576, c.dv = 512, c.splits = 3, c.page = 64;
  run_latent(c);
}

TEST_F(Wgmma, LatentValuesOfFewRows) {
  Case c = base_case();
  c.sq = 1, c.sk = 300, c.hq = 16, c.hkv = 1, c.d = 576, c.dv = 512, c.q = FA_BF16, c.splits = 0;
  run_latent(c);
}

TEST_F(Wgmma, OtherValuesAreNot) {
  Case c = base_case();
  c.sq = 2, c.sk = 70, c.hq = 32, c.hkv = 1, c.d = 576, c.dv = 512;
  expect_runs_on("fa_forward_plain", c);
}

TEST_F(Wgmma, ManyTilesFromPages) {
  run_with_nan_at(31, pages_case());
}
TEST_F(Wgmma, ManyTilesFromOddPages) {
  run_with_nan_at(11, odd_pages_case());
}
TEST_F(Wgmma, ManyTilesInAWindow) {
  run_with_nan_at(300, window_case());
}

/// The rows behind a sequence's last one are the next one's.
TEST_F(Wgmma, ManyTilesOfPackedRows) {
  Case c = base_case();
  c.b = 5, c.sq = 150, c.q = FA_BF16, c.cu_q = c.cu_k = true;
  run_right(c);
}

/// Results follow one another at once.
TEST_F(Wgmma, ManyTilesWithoutKeys) {
  Case c = base_case();
  c.b = 1, c.sq = 900, c.sk = 20, c.q = FA_BF16;
  run_right(c);
}

TEST_F(Wgmma, ManyTilesOfASlope) {
  Case c = base_case();
  c.b = 3, c.hq = 4, c.q = FA_BF16, c.alibi = "h", c.softcap = 3, c.page = 16;
  run_with_nan_at(3, c);
}

/// Scores that rise from tile to tile and fall again, in the order in which tiles are visited: by less than moves
/// a row's reference, by so much that it moves in every tile, by as much as weights can be scaled by, and by more than
/// a float can be large.
void run_rising(int64_t dim, std::initializer_list<fa_dtype> types) {
  constexpr double levels[] = {0, 1, 2, 1.5, 1.5};
  for (const double rise : {0.0, 2.5, 10.0, 88.0, 100.0}) {
    for (const fa_dtype type : types) {
      const InContext in;
      Case c = base_case();
      c.b = 1, c.sk = 520, c.q = type, c.d = dim;
      Call own(c);
      Instance &i = own.instance;
      i.q.each([&](int64_t b, int64_t row, int64_t h, int64_t d, int64_t) {
        if (d == 0) i.q.set(b, row, h, d, 8);
      });
      i.k.each([&](int64_t b, int64_t key, int64_t h, int64_t d, int64_t) {
        if (d == 0) i.k.set(b, key, h, d, rise * levels[(c.sk - key) / 128]);
      });
      own.update(i.q);
      own.update(i.k);
      const Op op(desc_of(c));
      ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
      EXPECT_EQ(own.failure(), "") << "scores that rise by " << rise;
    }
  }
}

TEST_F(Wgmma, ManyTilesOfRisingScores) {
  run_rising(64, {FA_F16, FA_BF16});
}
TEST_F(Wgmma, ManyTilesOfRisingScoresOf512Columns) {
  run_rising(512, {FA_BF16});
}

/// Only one of the warpgroups that share rows finds a score that moves their reference, or a value that is not finite.
TEST_F(Wgmma, ManyTilesWithOneLargeScoreOf512Columns) {
  for (const int64_t column : {0, 511}) {
    const InContext in;
    Case c = base_case();
    c.b = 1, c.hq = c.hkv = 1, c.sk = 520, c.d = 512, c.q = FA_BF16, c.mask = FA_MASK_NONE;
    Call own(c);
    own.instance.q.each([&](int64_t b, int64_t row, int64_t h, int64_t d, int64_t) {
      if (d == 0) own.instance.q.set(b, row, h, d, 8);
    });
    own.instance.k.set(0, 130, 0, 0, 64);  // in the first half of a tile
    own.instance.k.set(0, 101, 0, 0, 96);  // and the second
    own.instance.v.set(0, 130, 0, column, std::numeric_limits<double>::infinity());
    for (const auto *tensor : {&own.instance.q, &own.instance.k, &own.instance.v}) own.update(*tensor);
    const Op op(desc_of(c));
    ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
    EXPECT_EQ(own.failure(), "") << column;
  }
}

}  // namespace
}  // namespace cuda_test
