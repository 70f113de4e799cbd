// Trees of new tokens: refusals by name, and calls that are legal.
#include "call.h"

namespace api_test {
namespace {

/// A causal call with a tree that all sequences and heads share.
struct Tree : Call {
  Tree() {
    desc.mask = FA_MASK_CAUSAL;
    add_tree();
  }
};

struct Refused {
  void (*spoil)(Tree &);
  std::vector<std::string> words;
};

// clang-format off
const Refused refusals[] = {
    {[](Tree &c) { c.desc.mask = FA_MASK_NONE; }, {"args.tree_mask with desc.mask FA_MASK_NONE", "expected FA_MASK_CAUSAL"}}, // [F279]
    {[](Tree &c) { c.args.tree_mask.data = nullptr; }, {"args.tree_depth without args.tree_mask"}},                         // [F280]
    {[](Tree &c) { c.args.tree_mask.dtype = FA_BOOL; }, {"args.tree_mask.dtype is 4 (FA_BOOL)", "FA_I32"}},                 // [F281]
    {[](Tree &c) { c.args.tree_mask.shape[0] = 3; }, {"args.tree_mask.shape[0] is 3", "1 or 2", "sequences"}},              // [F281]
    {[](Tree &c) { c.args.tree_mask.shape[1] = 2; }, {"args.tree_mask.shape[1] is 2", "1 or 4", "heads of q"}},             // [F281]
    {[](Tree &c) { c.args.tree_mask.shape[2] = 1; }, {"args.tree_mask.shape[2] is 1", "expected 3", "queries"}},            // [F281]
    {[](Tree &c) { c.args.tree_mask.shape[3] = 2; }, {"args.tree_mask.shape[3] is 2", "expected 1", "words of 32 bits"}},   // [F281]
    {[](Tree &c) { c.pack_q(); c.args.tree_mask.shape[0] = 2; }, {"args.tree_mask.shape[0] is 2", "expected 1"}},
    {[](Tree &c) { c.args.tree_depth.dtype = FA_F32; }, {"args.tree_depth.dtype is 1 (FA_F32)", "FA_I32"}},
    {[](Tree &c) { c.args.tree_depth.shape[1] = 4; }, {"args.tree_depth.shape[1] is 4", "expected 3", "queries"}},
    {[](Tree &c) { c.depths[1] = -1; }, {"args.tree_depth[0][1] is -1", "expected 0 .. 2", "tree of 3 tokens"}},            // [F277]
    {[](Tree &c) { c.depths[2] = 3; }, {"args.tree_depth[0][2] is 3", "expected 0 .. 2"}},                                  // [F277]
    {[](Tree &c) { c.args.seqused_q = c.used_q; c.depths[4] = 2; },
     {"args.tree_depth[1][1] is 2", "expected 0 .. 1", "sequence 1 has a tree of 2 tokens"}},                               // [F277]
};
// clang-format on

TEST(Tree, RefusedByName) {
  for (const Refused &r : refusals) {
    Tree call;
    r.spoil(call);
    EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT) << testing::PrintToString(r.words);
    EXPECT_EQ(missing_words(fa_last_error(), r.words), "");
  }
}

/// Each dimension that may be 1, repeated or not, packed or not, under either causal mask.
// [F281]
TEST(Tree, EachShapeIsServed) {
  for (const fa_mask mask : {FA_MASK_CAUSAL, FA_MASK_CAUSAL_TOP_LEFT})
    for (const bool packed : {false, true})
      for (const int64_t entries : {int64_t{1}, packed ? 1 : Call::b})
        for (const int64_t heads : {int64_t{1}, Call::hq}) {
          Tree call;
          call.desc.mask = mask;
          if (packed) call.pack_q(), call.args.max_seqlen_q = 2;
          fa_tensor_init(&call.args.tree_mask, call.tree, FA_I32, entries, heads, Call::sq, 1);
          fa_tensor_init(&call.args.tree_depth, call.depths, FA_I32, entries, Call::sq, 1, 1);
          EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
        }
}

/// Words follow from the longest sequence: from max_seqlen_q where that is given, else from all rows of q.
// [F281]
TEST(Tree, WordsOfTheLongestSequence) {
  constexpr int64_t rows = 70;
  static float q[rows * Call::hq * Call::d], out[rows * Call::hq * Call::d];
  static int32_t words[rows * 4];
  for (const auto &[bound, given, status] : {std::tuple{0, 3, FA_OK}, std::tuple{0, 2, FA_ERROR_INVALID_ARGUMENT},
                                             std::tuple{0, 4, FA_ERROR_INVALID_ARGUMENT}, std::tuple{33, 2, FA_OK},
                                             std::tuple{33, 3, FA_OK}, std::tuple{33, 1, FA_ERROR_INVALID_ARGUMENT}}) {
    Tree call;
    const int32_t cumulative[] = {0, 33, 60};
    call.args.tree_depth.data = nullptr;
    fa_tensor_init(&call.args.q, q, FA_F32, 1, rows, Call::hq, Call::d);
    fa_tensor_init(&call.args.out, out, FA_F32, 1, rows, Call::hq, Call::d);
    fa_tensor_init(&call.args.tree_mask, words, FA_I32, 1, 1, rows, given);
    call.args.cu_seqlens_q = cumulative, call.args.num_seqs = Call::b, call.args.max_seqlen_q = bound;
    EXPECT_EQ(call.run(), status) << bound << " " << given << ": " << fa_last_error();
  }
}

/// Neither the tree nor its depths decide the size.
// [F126] [F127]
TEST(Tree, TheWorkspaceDoesNotDependOnIt) {
  Tree call;
  fa_op *op = call.create();
  size_t with = 0, without = 0;
  EXPECT_EQ(fa_forward_workspace_size(op, &call.args, &with), FA_OK);
  call.args.tree_mask.data = call.args.tree_depth.data = nullptr;
  EXPECT_EQ(fa_forward_workspace_size(op, &call.args, &without), FA_OK);
  EXPECT_EQ(with, without);
  fa_destroy(op);
}

}  // namespace
}  // namespace api_test
