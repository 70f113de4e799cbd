// Shared by the tests of families of persistent kernels. They are meant for a device of two multiprocessors, so that
// small calls have more work tiles than blocks, and each block takes many tiles one after another.
#pragma once

#include <limits>

#include "cuda/fixture.h"

namespace cuda_test {

using Change = void (*)(Case *);

inline Case base_case() {
  Case c;
  c.b = 2, c.sq = 70, c.sk = 150, c.hq = 2, c.hkv = 2, c.d = 64, c.q = FA_F16, c.mask = FA_MASK_CAUSAL, c.splits = 1;
  return c;
}

inline Case changed(Change change) {
  Case c = base_case();
  change(&c);
  return c;
}

inline Case long_case(int64_t dim, fa_dtype type) {
  Case c = base_case();
  c.b = 3, c.sq = 250, c.sk = 700, c.hkv = 1, c.d = dim, c.q = type;
  return c;
}

/// Work tiles with several heads of a group; the last page of a sequence has rows that are not the sequence's.
inline Case pages_case() {
  Case c = base_case();
  c.sq = 40, c.sk = 300, c.hq = 8, c.q = FA_BF16, c.page = 32, c.splits = 2;
  return c;
}

/// Pages that no boxes fit, in tiles that three heads do not fill.
inline Case odd_pages_case() {
  Case c = base_case();
  c.sq = 50, c.sk = 300, c.hq = 6, c.q = FA_BF16, c.page = 12, c.splits = 2;
  return c;
}

inline Case window_case() {
  Case c = long_case(64, FA_F16);
  c.window_left = 300, c.used_k = true;
  return c;
}

/// Multiprocessors of device 0.
inline int64_t multiprocessors() {
  constexpr int count = 16;
  int value = 0;
  EXPECT_EQ(call("cuDeviceGetAttribute", &value, count, 0), CUDA_SUCCESS);
  return value;
}

/// Runs a case with a value that is not finite at a key in the middle, hidden from some rows. Each block has several
/// work tiles, with and without masked tiles of keys, whose keys pass through its stages more than once.
inline void run_with_nan_at(int64_t key, const Case &c) {
  const InContext in;
  Call own(c);
  const Op op(desc_of(c));
  own.instance.v.set(1, key, 0, 3, std::numeric_limits<double>::quiet_NaN());
  own.update(own.instance.v);
  ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
  EXPECT_EQ(own.failure(), "");
}

/// A work tile more than there are multiprocessors, with keys enough to split it. Some of its rows, but not of the
/// others, see a value that is not finite.
inline void run_with_split_remainder(const Case &of) {
  const InContext in;
  Case c = of;
  c.b = 1, c.sq = 20, c.sk = 2500, c.hq = c.hkv = multiprocessors() + 1, c.splits = 0;
  Call own(c);
  const Op op(desc_of(c));
  own.instance.v.set(0, 2490, c.hq - 1, 3, std::numeric_limits<double>::quiet_NaN());
  own.update(own.instance.v);
  Log said;
  ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
  EXPECT_EQ(own.failure(), "");
  EXPECT_NE(said.text.find("fa_forward_plain, the last 1 of " + std::to_string(c.hq) + " tiles in "), std::string::npos)
      << said.text;
}

/// Changes of the base case that leave it to the plain entry point of every such family.
inline constexpr Change plain_changes[] = {
    [](Case *) {},
    [](Case *c) { c->cu_q = c->cu_k = true; },
    [](Case *c) { c->used_q = c->used_k = c->leftpad = true; },
    [](Case *c) { c->batch_idx = c->offset = true; },
    [](Case *c) { c->window_left = 20, c->sinks = "h", c->out = FA_F32; },
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

/// A change of the base case that no such family supports.
struct Unsupported {
  const char *why;
  Change change;
};

inline constexpr Unsupported unsupported_changes[] = {
    {"a softcap above 256", [](Case *c) { c->softcap = 300; }},
    {"a mask", [](Case *c) { c->boolmask = "k"; }},
    {"the family does not have it", [](Case *c) { c->sq = 3, c->splits = 2; }},  // decode
    {"rows of out that are not whole multiples of 16 bytes", [](Case *c) { c->dv = 44; }},
    {"q, k or v whose rows are not whole multiples of 16 bytes", [](Case *c) { c->d = 44, c->dv = 64; }},
};

/// A test of a family, skipped where the build lacks it. `others`: the family that has the calls which this one does
/// not support.
class PersistentFamily : public testing::Test {
 protected:
  PersistentFamily(const char *name, const char *others) : name_(name), others_(others) {}

  void SetUp() override {
    if (!is_built(name_)) GTEST_SKIP() << "this build has no " << name_;
    context_ = std::make_unique<InContext>();
  }

  /// entry: and words that follow it in the log.
  void expect_runs_on(const std::string &entry, const Case &c) const {
    std::string log;
    EXPECT_EQ(run(c, &log), "");
    expect_logged("call: " + name_ + " " + entry, log);
  }

  void expect_left_to_others(const Unsupported &unsupported) const {
    std::string log;
    EXPECT_EQ(run(changed(unsupported.change), &log), "");
    expect_logged("call: " + others_, log);
    expect_logged("not " + name_, log);
    expect_logged(unsupported.why, log);
  }

 private:
  static void expect_logged(const std::string &words, const std::string &log) {
    EXPECT_NE(log.find(words), std::string::npos) << log;
  }

  const std::string name_, others_;
  /// Else every call of a test would be the first and the last user of the primary context, which a GPU takes a second
  /// to make.
  std::unique_ptr<InContext> context_;
};

}  // namespace cuda_test
