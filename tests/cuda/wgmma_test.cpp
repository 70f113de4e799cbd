// The family for warpgroups: which calls it takes, and blocks that work through many tiles one after another. Meant for
// a device of two multiprocessors, so that small calls have more works than blocks.
#include "cuda/works.h"

namespace cuda_test {
namespace {

constexpr const char *ours = "cuda.sm_90a.wgmma", *others = "cuda.sm_90a.mma";

class Wgmma : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_built(ours)) GTEST_SKIP() << "this build has no " << ours;
  }
};

void run_right(const Case &c) {
  std::string log;
  EXPECT_EQ(run(c, &log), "");
}

TEST_F(Wgmma, TakesWhatItIsFor) {
  void (*const changes[])(Case *) = {
      [](Case *) {},
      [](Case *c) { c->cu_q = c->cu_k = true; },
      [](Case *c) { c->used_q = c->used_k = c->leftpad = true; },
      [](Case *c) { c->batch_idx = c->offset = true; },
      [](Case *c) { c->window_left = 20, c->sinks = "h", c->out = FA_F32; },
      [](Case *c) { c->d = 96, c->dv = 40, c->mask = FA_MASK_NONE, c->q = FA_BF16; },
      [](Case *c) { c->chunk = 32; },
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

TEST_F(Wgmma, TakesSoftcapsAndSlopes) {
  for (const bool cap : {true, false}) {
    Case c = base_case();
    c.hq = 4, c.sq = 20, c.sk = 100, c.page = 32, (cap ? c.softcap : c.amp) = 3, c.alibi = cap ? "" : "h";
    std::string log;
    EXPECT_EQ(run(c, &log), "");
    EXPECT_NE(log.find(std::string("call: ") + ours + " fa_forward_score_mod"), std::string::npos) << log;
  }
}

TEST_F(Wgmma, LeavesTheOthersToMma) {
  struct Way {
    const char *why;
    void (*change)(Case *);
  };
  const Way ways[] = {
      {"a softcap above 256", [](Case *c) { c->softcap = 300; }},
      {"a mask", [](Case *c) { c->boolmask = "k"; }},
      {"the family does not have it", [](Case *c) { c->sq = 3, c->splits = 2; }},  // decode
      {"few rows of heads that its tiles do not pack", [](Case *c) { c->sq = 20, c->hq = 71, c->hkv = 1; }},
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

/// More works than a block remembers one by one: the first ones and the last ones must be repeated.
TEST_F(Wgmma, MoreWorksThanBits) {
  const InContext in;
  Case c = base_case();
  c.hq = c.hkv = 1040, c.sk = 72, c.q = FA_BF16;
  Call own(c);
  for (const int64_t head : {0, 1, 517, 1039})
    for (const int64_t b : {0, 1})
      own.instance.v.set(b, 50, head, 3, std::numeric_limits<double>::quiet_NaN());  // hidden from the first 48 rows
  own.update(own.instance.v);
  const Op op(desc_of(c));
  Log said;
  ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
  EXPECT_EQ(own.failure(), "");
  EXPECT_NE(said.text.find(ours), std::string::npos) << said.text;
}

TEST_F(Wgmma, ManyWorksOf64Columns) {
  work_through(long_case(64, FA_BF16), 620);
}
TEST_F(Wgmma, ManyWorksOf96Columns) {
  work_through(long_case(96, FA_F16), 620);
}
TEST_F(Wgmma, ManyWorksOf128Columns) {
  work_through(long_case(128, FA_F16), 620);
}

TEST_F(Wgmma, ManyWorksOf192Columns) {
  Case c = long_case(192, FA_BF16);
  c.b = 2, c.hq = 1, c.sk = 400;  // wide tiles take the emulator long
  work_through(c, 320);
}

TEST_F(Wgmma, ManyWorksOf256Columns) {
  Case c = long_case(256, FA_F16);
  c.b = 2, c.hq = 1, c.sk = 300;
  work_through(c, 250);
}

/// Each block has several works of a group's heads; the last page of a sequence has rows that are not its own.
TEST_F(Wgmma, ManyWorksFromPages) {
  Case c = base_case();
  c.sq = 40, c.sk = 300, c.hq = 8, c.q = FA_BF16, c.page = 32, c.splits = 2;
  work_through(c, 31);
}

/// The same of pages that no boxes fit, in tiles that three heads do not fill.
TEST_F(Wgmma, ManyWorksFromOddPages) {
  Case c = base_case();
  c.sq = 50, c.sk = 300, c.hq = 6, c.q = FA_BF16, c.page = 12, c.splits = 2;
  work_through(c, 11);
}

/// The rows behind a sequence's last one are the next one's.
TEST_F(Wgmma, ManyWorksOfPackedRows) {
  Case c = base_case();
  c.b = 5, c.sq = 150, c.q = FA_BF16, c.cu_q = c.cu_k = true;
  run_right(c);
}

/// Results follow one another at once.
TEST_F(Wgmma, ManyWorksWithoutKeys) {
  Case c = base_case();
  c.b = 1, c.sq = 900, c.sk = 20, c.q = FA_BF16;
  run_right(c);
}

TEST_F(Wgmma, ManyWorksOfASlope) {
  Case c = base_case();
  c.b = 3, c.hq = 4, c.q = FA_BF16, c.alibi = "h", c.softcap = 3, c.page = 16;
  work_through(c, 3);
}

TEST_F(Wgmma, ManyWorksInAWindow) {
  Case c = long_case(64, FA_F16);
  c.window_left = 300, c.used_k = true;
  work_through(c, 300);
}

/// Scores that rise from tile to tile and fall again, in the order in which tiles are visited: by less than moves
/// a row's reference, by so much that it moves in every tile, by as much as weights can be scaled by, and by more than
/// a float can be large.
TEST_F(Wgmma, ManyWorksOfRisingScores) {
  constexpr double levels[] = {0, 1, 2, 1.5, 1.5};
  for (const double rise : {0.0, 2.5, 10.0, 88.0, 100.0}) {
    for (const fa_dtype type : {FA_F16, FA_BF16}) {
      const InContext in;
      Case c = base_case();
      c.b = 1, c.sk = 520, c.q = type;
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

}  // namespace
}  // namespace cuda_test
