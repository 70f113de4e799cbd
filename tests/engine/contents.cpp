// contents.*: the contents of a call's arrays are checked before anything is computed: wrong contents are named, and
// nothing is read or written because of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>

#include "engine/target.h"
#include "reference/run.h"

namespace test {
using namespace reference;
namespace {

class Contents : public EngineTest {
 protected:
  static Case base() {
    Case c;
    c.b = 3, c.sq = 5, c.sk = 20, c.hq = 2, c.hkv = 1, c.d = 16;
    return c;
  }

  /// Expects a refusal whose text holds each of words, and no element written.
  void expect_refused(const Instance &instance, const std::vector<std::string> &words) {
    const Op op(instance.desc, kernel);
    ASSERT_TRUE(op) << fa_last_error();
    instance.clear_outputs();
    EXPECT_EQ(forward(op, instance), FA_ERROR_INVALID_ARGUMENT) << "for a wrong " << words[0];
    for (const std::string &word : words)
      EXPECT_NE(std::string(fa_last_error()).find(word), std::string::npos)
          << "\"" << fa_last_error() << "\" does not name " << word;
    const std::vector<char> none(size_t(instance.out.shape()[0] * instance.out.shape()[1]), 0);
    EXPECT_EQ(instance.out.untouched_outside(none), "");
    EXPECT_EQ(instance.lse.untouched_outside(none, 2), "");
  }

  /// Every wrong value, at every place of the array that change sets up, is refused by name.
  void expect_each_refused(Case c, GuardedInts Instance::*array, const std::vector<int32_t> &wrong,
                           const std::string &name) {
    for (size_t at = 0; at < size_t(c.b); ++at) {
      for (const int32_t value : wrong) {
        const Instance instance(c);
        (instance.*array)[at] = value;
        expect_refused(instance, {name, std::to_string(value)});
      }
    }
  }
};

// [F94] [F101]
TEST_P(Contents, SequsedQ) {
  Case c = base();
  c.used_q = true;
  expect_each_refused(c, &Instance::seqused_q, {-1, 6, INT_MAX, INT_MIN}, "seqused_q");
}

// [F94] [F102]
TEST_P(Contents, SequsedK) {
  Case c = base();
  c.used_k = true;
  expect_each_refused(c, &Instance::seqused_k, {-1, 21, INT_MAX, INT_MIN}, "seqused_k");
  c.page = 8;  // three pages of 8: 24 keys
  expect_each_refused(c, &Instance::seqused_k, {-1, 25, INT_MAX}, "seqused_k");
}

// [F94] [F103]
TEST_P(Contents, LeftpadK) {
  Case c = base();
  c.leftpad = true;
  expect_each_refused(c, &Instance::leftpad_k, {-1, 21, INT_MAX, INT_MIN}, "leftpad_k");
  c.used_k = true;  // seqused_k includes leftpad_k
  const Instance instance(c);
  instance.seqused_k[1] = 7;
  instance.leftpad_k[1] = 8;
  expect_refused(instance, {"leftpad_k", "8"});
}

// [F94] [F104]
TEST_P(Contents, KvBatchIdx) {
  Case c = base();
  c.batch_idx = true;
  expect_each_refused(c, &Instance::kv_batch_idx, {-1, 5, INT_MAX, INT_MIN}, "kv_batch_idx");
}

// [F94] [F100]
TEST_P(Contents, CuSeqlens) {
  for (const bool of_q : {true, false}) {
    Case c = base();
    c.cu_q = of_q;
    c.cu_k = !of_q;
    const char *name = of_q ? "cu_seqlens_q" : "cu_seqlens_k";
    GuardedInts Instance::*array = of_q ? &Instance::cu_seqlens_q : &Instance::cu_seqlens_k;
    const auto refuse = [&](size_t at, int32_t value) {
      const Instance instance(c);
      (instance.*array)[at] = value;
      expect_refused(instance, {name});
    };
    refuse(0, -1);
    refuse(1, -1);
    refuse(1, INT_MAX);
    refuse(2, 0 - INT_MAX);
    refuse(3, INT_MAX);
    refuse(3, -1);
    const Instance instance(c);
    const int64_t rows = (of_q ? instance.args.q : instance.args.k).shape[1];
    refuse(3, int32_t(rows + 1));  // the tensor has no such row
    (instance.*array)[3] = int32_t(rows);
    EXPECT_EQ(forward(Op(instance.desc, kernel), instance), FA_OK) << name << ": " << fa_last_error();
    const Instance later(c);  // the rows before the first entry are no sequence's
    (later.*array)[0] = 1;
    for (size_t b = 1; b <= 3; ++b) (later.*array)[b] = std::max((later.*array)[b], 1);
    EXPECT_EQ(forward(Op(later.desc, kernel), later), FA_OK) << name << ": " << fa_last_error();
    EXPECT_EQ(compare(later, Expected(later)), "") << name;
  }
}

// [F107]
TEST_P(Contents, LongerThanTheBound) {
  Case c = base();
  c.cu_q = true;
  {
    Instance instance(c);
    instance.args.max_seqlen_q = 4;  // one sequence has 5
    expect_refused(instance, {"max_seqlen_q"});
  }
  c.cu_q = false;
  c.used_k = true;
  Instance instance(c);
  instance.seqused_k[1] = 12;
  instance.seqused_k[0] = instance.seqused_k[2] = 3;
  instance.args.max_seqlen_k = 11;
  expect_refused(instance, {"max_seqlen_k"});
}

// [F94]
TEST_P(Contents, BlockTable) {
  Case c = base();
  c.page = 8;
  for (const int value : {-1, 10, INT_MAX, INT_MIN}) {  // 3 x 3 pages and an unused one
    for (int64_t b = 0; b < 3; ++b) {
      for (int64_t page = 0; page < 3; ++page) {
        const Instance instance(c);
        instance.block_table.set(b, page, 0, 0, value);
        expect_refused(instance, {"block_table", std::to_string(value)});
      }
    }
  }
}

/// Columns past a sequence's used pages are not even read: those of the last sequence are in an inaccessible page.
// [F99]
TEST_P(Contents, UnusedPagesAreNotLookedUp) {
  Case c = base();
  c.page = 4, c.used_k = true, c.sk = 40;
  Instance instance(c);
  for (size_t b = 0; b < 3; ++b) instance.seqused_k[b] = 6;  // two of ten pages
  const Tensor table({3, 10, 1, 1}, FA_I32, Layout::bshd, Guard::end);
  fa_tensor view = table.view();
  // The last row's first two entries are the last accessible ones.
  view.data = table.at(0, 8, 0, 0);
  instance.args.block_table = view;
  for (int64_t b = 0; b < 3; ++b)
    for (int64_t page = 0; page < (b < 2 ? 10 : 2); ++page)
      static_cast<int32_t *>(view.data)[b * 10 + page] = page < 2 ? int32_t(2 * b + page) : (page % 2 ? INT_MAX : -1);
  for (const Tensor *tensor : {&instance.k, &instance.v}) tensor->randomise(1, 1, 1);
  for (const int32_t splits : {0, 3}) {
    instance.args.num_splits = splits;
    const Op op(instance.desc, kernel);
    ASSERT_EQ(fa_forward(op.get(), &instance.args), FA_OK) << fa_last_error();
    EXPECT_EQ(compare(instance, Expected(instance)), "");
  }
}

/// A window leaves most pages to no query: a cache may have let go of them.
// [F199]
TEST_P(Contents, PagesThatNoQueryNeedsAreNotLookedUp) {
  for (const int64_t queries : {1, 5, 100}) {
    for (const int32_t splits : {0, 3}) {
      Case c = base();
      c.page = 8, c.sq = queries, c.sk = 3000, c.window_left = 3, c.window_right = 0, c.splits = splits, c.d = 32;
      const Instance whole(c), part(c);
      for (int64_t b = 0; b < c.b; ++b)
        for (int64_t page = 0; page < 2800 / 8; ++page) part.block_table.set(b, page, 0, 0, page % 2 ? INT_MAX : -1);
      const Op op(whole.desc, kernel);
      ASSERT_EQ(forward(op, whole), FA_OK) << fa_last_error();
      ASSERT_EQ(forward(op, part), FA_OK) << fa_last_error();
      EXPECT_EQ(same_outputs(whole, part, kernel), "");
      part.block_table.set(1, 2990 / 8, 0, 0, -7);
      expect_refused(part, {"block_table", "-7"});
    }
  }
}

// [F105]
TEST_P(Contents, OffsetsOfAnySize) {
  for (const int32_t offset : {INT_MIN, -1000000000, 1000000000, INT_MAX}) {
    Case c = base();
    c.offset = true, c.mask = FA_MASK_CAUSAL;
    const Instance instance(c);
    for (size_t b = 0; b < 3; ++b) instance.q_offset[b] = offset;
    const Op op(instance.desc, kernel);
    ASSERT_EQ(fa_forward(op.get(), &instance.args), FA_OK) << fa_last_error();
    EXPECT_EQ(compare(instance, Expected(instance)), "") << "offset " << offset;
  }
}

TEST_TARGETS(Contents, {"f32"});

}  // namespace
}  // namespace test
