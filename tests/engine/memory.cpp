// memory.*: allocations, their failures, the size of the workspace, and that a workspace of exactly that size is
// enough.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/allocation.h"
#include "engine/short_memory.h"
#include "engine/target.h"
#include "reference/run.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

class Memory : public EngineTest {
 protected:
  static std::vector<Case> cases() {
    Case prefill;
    prefill.b = 2, prefill.sq = 70, prefill.sk = 200, prefill.hq = 4, prefill.hkv = 2, prefill.d = 32;
    Case decode = prefill;
    decode.sq = 1, decode.sk = 2000, decode.splits = 4;
    Case paged = prefill;
    paged.page = 16, paged.used_k = paged.leftpad = true, paged.k_layout = Layout::stepped, paged.bias = "f16:hk";
    Case packed = prefill;
    packed.cu_q = packed.cu_k = true, packed.mask = FA_MASK_CAUSAL, packed.sinks = "h", packed.alibi = "h";
    return {prefill, decode, paged, packed};
  }

  size_t workspace_size(const Case &c) {
    const Instance instance(c);
    const Op op(instance.desc, kernel);
    size_t bytes = ~size_t{0};
    EXPECT_EQ(fa_forward_workspace_size(op.get(), &instance.args, &bytes), FA_OK) << fa_last_error();
    return bytes;
  }
};

// [F109] [F133]
TEST_P(Memory, NoAllocationWithAWorkspace) {
  for (Case c : cases()) {
    for (const int32_t threads : {1, 3}) {
      c.threads = threads;
      const Instance instance(c);
      const Op op(instance.desc, kernel);
      fa_forward_args args = instance.args;
      watch_allocations();
      const fa_status sized = fa_forward_workspace_size(op.get(), &args, &args.workspace_size);
      EXPECT_EQ(stop_watching(), 0) << "fa_forward_workspace_size allocates";
      ASSERT_EQ(sized, FA_OK) << fa_last_error();
      const GuardedMemory memory((args.workspace_size + 255) / 256 * 256, Guard::end);
      args.workspace = memory.size() ? memory.data() : nullptr;
      ASSERT_TRUE(threads == 1 || fa_forward(op.get(), &args) == FA_OK);  // starts the threads
      watch_allocations();
      const fa_status first = fa_forward(op.get(), &args), second = fa_forward(op.get(), &args);
      EXPECT_EQ(stop_watching(), 0) << "fa_forward allocates\n" << repeat_line(c, kernel);
      EXPECT_EQ(first, FA_OK);
      EXPECT_EQ(second, FA_OK);
      EXPECT_EQ(compare(instance, Expected(instance)), "");
    }
  }
}

TEST_P(Memory, CreateWithoutMemory) {
  const Instance instance(cases()[0]);
  setenv("FA_FORCE_KERNEL", kernel.c_str(), 1);
  int64_t failing = 0;
  for (bool failed = true; failed; ++failing) {
    ASSERT_LT(failing, 1000);
    for (const bool all_after : {false, true}) {
      fa_op *op = reinterpret_cast<fa_op *>(1);
      watch_allocations(failing, all_after);
      const fa_status status = fa_create(&instance.desc, &op);
      failed = stop_watching() > failing;
      EXPECT_EQ(status, failed ? FA_ERROR_OUT_OF_MEMORY : FA_OK) << fa_last_error();
      EXPECT_EQ(op == nullptr, failed);
      EXPECT_TRUE(!failed || fa_last_error()[0]);
      fa_destroy(op);
    }
  }
  EXPECT_GT(failing, 1) << "fa_create allocated nothing that these tests see";
}

// [F56] [F72]
TEST_P(Memory, ForwardWithoutMemory) {
  for (Case c : cases()) {
    for (const int32_t threads : {1, 3}) {
      c.threads = threads;
      const Instance instance(c);
      const Expected expected(instance);
      const Op op(instance.desc, kernel);
      const std::vector<char> none(size_t(instance.out.shape()[0] * instance.out.shape()[1]), 0);
      const bool any = fails_where_memory_is_short(
          [&] { instance.clear_outputs(); }, [&] { return fa_forward(op.get(), &instance.args); },
          [&](bool done) {
            if (done) {
              EXPECT_EQ(compare(instance, expected), "");
            } else {
              EXPECT_EQ(instance.out.untouched_outside(none) + instance.lse.untouched_outside(none, 2), "");
            }
          });
      EXPECT_TRUE(any || !every_allocation_is_seen || workspace_size(c) == 0) << "no failing allocation made it fail";
    }
  }
}

// [F128]
TEST_P(Memory, WorkspaceSizeNeverFallsWhenABoundRises) {
  for (Case c : cases()) {
    c.d = 8;  // quick to build
    c.sk = std::min<int64_t>(c.sk, 300);
    for (int64_t Case::*bound : {&Case::b, &Case::sq, &Case::sk}) {
      for (const int32_t splits : {0, 3}) {
        size_t before = 0;
        Case larger = c;
        larger.splits = splits;
        for (const int64_t size : {1, 2, 3, 8, 31, 64, 65, 129, 300}) {
          larger.*bound = bound == &Case::b ? std::min<int64_t>(size, 12) : size;
          const size_t bytes = workspace_size(larger);
          ASSERT_GE(bytes, before) << "for " << to_text(larger);
          before = bytes;
        }
      }
    }
    size_t before = 0;
    for (const int32_t splits : {1, 2, 3, 8, 50, 1024}) {
      Case more = c;
      more.splits = splits;
      const size_t bytes = workspace_size(more);
      ASSERT_GE(bytes, before) << "for " << to_text(more);
      before = bytes;
    }
  }
}

/// max_seqlen_* alone move the size within the same tensors, and never upwards as they fall.
TEST_P(Memory, WorkspaceSizeFollowsMaxSeqlen) {
  Case c = cases()[3];
  const Instance instance(c);
  const Op op(instance.desc, kernel);
  for (int64_t fa_forward_args::*bound : {&fa_forward_args::max_seqlen_q, &fa_forward_args::max_seqlen_k}) {
    size_t before = 0;
    fa_forward_args args = instance.args;
    for (const int64_t longest : {70, 71, 100, 140, 0}) {  // 0: unknown, the largest
      args.*bound = longest;
      size_t bytes = 0;
      ASSERT_EQ(fa_forward_workspace_size(op.get(), &args, &bytes), FA_OK) << fa_last_error();
      EXPECT_GE(bytes, before) << longest;
      before = bytes;
    }
  }
}

// [F127]
TEST_P(Memory, WorkspaceSizeLooksAtNoData) {
  for (const Case &c : cases()) {
    const Instance instance(c);
    const Op op(instance.desc, kernel);
    size_t with = 0, without = 0;
    ASSERT_EQ(fa_forward_workspace_size(op.get(), &instance.args, &with), FA_OK) << fa_last_error();
    fa_forward_args args = instance.args;
    args.q.data = args.k.data = args.v.data = args.out.data = nullptr;
    const GuardedMemory unreadable(0, Guard::end);
    for (const int32_t *fa_forward_args::*array :
         {&fa_forward_args::cu_seqlens_q, &fa_forward_args::cu_seqlens_k, &fa_forward_args::seqused_k})
      if (args.*array) args.*array = reinterpret_cast<const int32_t *>(unreadable.data());
    ASSERT_EQ(fa_forward_workspace_size(op.get(), &args, &without), FA_OK) << fa_last_error();
    EXPECT_EQ(with, without);
  }
}

TEST_P(Memory, AWorkspaceTooSmallIsRefused) {
  for (const Case &c : cases()) {
    const Instance instance(c);
    const Op op(instance.desc, kernel);
    fa_forward_args args = instance.args;
    size_t bytes = 0;
    ASSERT_EQ(fa_forward_workspace_size(op.get(), &args, &bytes), FA_OK) << fa_last_error();
    if (bytes == 0) continue;
    const GuardedMemory memory((bytes + 255) / 256 * 256, Guard::start);
    args.workspace = memory.data();
    args.workspace_size = bytes - 1;
    EXPECT_EQ(fa_forward(op.get(), &args), FA_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(fa_last_error()).find("workspace_size"), std::string::npos) << fa_last_error();
    const std::vector<char> none(size_t(instance.out.shape()[0] * instance.out.shape()[1]), 0);
    EXPECT_EQ(instance.out.untouched_outside(none), "");
  }
}

/// Memory for threads and tiles, not for scores: 64 MiB at most for a causal head of 128k tokens.
TEST_P(Memory, LongSequencesNeedLittle) {
  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = 128;
  desc.mask = FA_MASK_CAUSAL;
  desc.num_threads = 2;
  const Op op(desc, kernel);
  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  for (fa_tensor fa_forward_args::*tensor :
       {&fa_forward_args::q, &fa_forward_args::k, &fa_forward_args::v, &fa_forward_args::out})
    fa_tensor_init(&(args.*tensor), nullptr, FA_F32, 1, 131072, 1, 128);
  size_t bytes = 0;
  ASSERT_EQ(fa_forward_workspace_size(op.get(), &args, &bytes), FA_OK) << fa_last_error();
  EXPECT_LT(bytes, size_t{64} << 20);
}

TEST_TARGETS(Memory, {"f32"});

}  // namespace
}  // namespace test
