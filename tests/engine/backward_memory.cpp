// backward_memory.*: the allocations of a backward call, their failures, the size of the workspace, and that one of
// exactly that size is enough.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/allocation.h"
#include "engine/short_memory.h"
#include "engine/target.h"
#include "reference/compare_gradients.h"
#include "reference/run.h"

namespace test {
using namespace reference;
namespace {

class BackwardMemory : public EngineTest {
 protected:
  static std::vector<Case> cases() {
    Case plain;
    plain.backward = true;
    plain.b = 2, plain.sq = 70, plain.sk = 90, plain.hq = 4, plain.hkv = 2, plain.d = 32;
    Case packed = plain;
    packed.cu_q = packed.cu_k = true, packed.mask = FA_MASK_CAUSAL, packed.sinks = packed.dsinks = "h";
    packed.accumulate = "qkvs";
    Case shared = plain;
    shared.batch_idx = shared.used_k = true, shared.bias = "f16:hk", shared.dbias = "k";
    shared.k_layout = shared.grad_layout = Layout::stepped;
    return {plain, packed, shared};
  }

  /// With an error where there is one.
  size_t workspace_size(const fa_desc &desc, const fa_backward_args &call) {
    const Op op(desc, kernel);
    size_t bytes = ~size_t{0};
    EXPECT_EQ(fa_backward_workspace_size(op.get(), &call, &bytes), FA_OK) << fa_last_error();
    return bytes;
  }

  /// The workspace of a causal f32 call over tensors without data.
  size_t workspace_size(int64_t b, int64_t sq, int64_t sk, int64_t hq, int64_t hkv, int32_t threads = 2) {
    fa_desc desc;
    fa_desc_init(&desc, sizeof desc);
    desc.dtype_q = FA_F32;
    desc.head_dim = 64;
    desc.mask = FA_MASK_CAUSAL;
    desc.num_threads = threads;
    alignas(4) static char memory[4];  // is never looked at; a wanted gradient is not absent
    fa_backward_args call;
    fa_backward_args_init(&call, sizeof call);
    for (fa_tensor *t : {&call.q, &call.out, &call.dout}) fa_tensor_init(t, nullptr, FA_F32, b, sq, hq, 64);
    for (fa_tensor *t : {&call.k, &call.v}) fa_tensor_init(t, nullptr, FA_F32, b, sk, hkv, 64);
    fa_tensor_init(&call.lse, nullptr, FA_F32, b, hq, sq, 1);
    fa_tensor_init(&call.dq, memory, FA_F32, b, sq, hq, 64);
    for (fa_tensor *t : {&call.dk, &call.dv}) fa_tensor_init(t, memory, FA_F32, b, sk, hkv, 64);
    return workspace_size(desc, call);
  }
};

// [F192]
TEST_P(BackwardMemory, NoAllocationWithAWorkspace) {
  for (Case c : cases()) {
    for (const int32_t threads : {1, 3}) {
      c.threads = threads;
      const BackwardInstance instance(c);
      const Op op(instance.desc, kernel);
      fa_backward_args call = instance.call;
      watch_allocations();
      const fa_status sized = fa_backward_workspace_size(op.get(), &call, &call.workspace_size);
      EXPECT_EQ(stop_watching(), 0) << "fa_backward_workspace_size allocates";
      ASSERT_EQ(sized, FA_OK) << fa_last_error();
      const GuardedMemory memory((call.workspace_size + 255) / 256 * 256, Guard::end);
      call.workspace = memory.size() ? memory.data() : nullptr;
      ASSERT_TRUE(threads == 1 || fa_backward(op.get(), &call) == FA_OK);  // starts the threads
      instance.clear_gradients();
      watch_allocations();
      const fa_status status = fa_backward(op.get(), &call);
      EXPECT_EQ(stop_watching(), 0) << "fa_backward allocates\n" << repeat_line(c, kernel);
      EXPECT_EQ(status, FA_OK);
      EXPECT_EQ(compare(instance, ExpectedGradients(instance)), "");
    }
  }
}

// [F56] [F72]
TEST_P(BackwardMemory, BackwardWithoutMemory) {
  for (Case c : cases()) {
    for (const int32_t threads : {1, 3}) {
      c.threads = threads;
      const BackwardInstance instance(c);
      const ExpectedGradients expected(instance);
      const Op op(instance.desc, kernel);
      instance.clear_gradients();
      const std::vector<char> before = instance.gradient_bits();
      const bool any = fails_where_memory_is_short(
          [&] { instance.clear_gradients(); }, [&] { return fa_backward(op.get(), &instance.call); },
          [&](bool done) {
            if (done) {
              EXPECT_EQ(compare(instance, expected), "");
            } else {
              EXPECT_EQ(instance.gradient_bits(), before) << "something was written";
            }
          });
      EXPECT_TRUE(any || !every_allocation_is_seen) << "no failing allocation made it fail";
    }
  }
}

// [F189] [F190]
TEST_P(BackwardMemory, WorkspaceSizeNeverFallsAndIsLinear) {
  const int64_t sizes[] = {0, 1, 2, 3, 8, 31, 64, 65, 129, 300, 1000, 4096};
  const auto rises = [&](const char *what, auto size_of) {
    size_t before = 0;
    for (const int64_t n : sizes) {
      const size_t bytes = size_of(n);
      ASSERT_GE(bytes, before) << what << " " << n;
      before = bytes;
    }
    EXPECT_LE(size_of(1 << 17), 2 * size_of(1 << 16)) << what;
  };
  rises("batch", [&](int64_t n) { return workspace_size(n, 70, 90, 4, 2); });
  rises("queries", [&](int64_t n) { return workspace_size(2, n, 90, 4, 2); });
  rises("keys", [&](int64_t n) { return workspace_size(2, 70, n, 4, 2); });
  rises("heads", [&](int64_t n) { return workspace_size(1, 70, 90, n, n == 0 ? 0 : 1); });
  rises("heads of both", [&](int64_t n) { return workspace_size(1, 70, 90, n, n); });
}

/// A causal head of 128k tokens needs a few rows of f32 a token, not scores.
// [F190]
TEST_P(BackwardMemory, LongSequencesNeedLittle) {
  EXPECT_LT(workspace_size(1, 131072, 131072, 1, 1), size_t{512} << 20);
}

/// max_seqlen_* alone move the size within the same tensors, and never upwards as they fall.
// [F189]
TEST_P(BackwardMemory, WorkspaceSizeFollowsMaxSeqlen) {
  const BackwardInstance instance(cases()[1]);
  for (int64_t fa_backward_args::*bound : {&fa_backward_args::max_seqlen_q, &fa_backward_args::max_seqlen_k}) {
    size_t before = 0;
    fa_backward_args call = instance.call;
    for (const int64_t longest : {90, 91, 100, 140, 0}) {  // 0: unknown, the largest
      call.*bound = longest;
      const size_t bytes = workspace_size(instance.desc, call);
      EXPECT_GE(bytes, before) << longest;
      before = bytes;
    }
  }
}

// [F188]
TEST_P(BackwardMemory, WorkspaceSizeLooksAtNoData) {
  for (const Case &c : cases()) {
    const BackwardInstance instance(c);
    const size_t with = workspace_size(instance.desc, instance.call);
    fa_backward_args call = instance.call;
    call.q.data = call.k.data = call.v.data = call.lse.data = call.dout.data = nullptr;
    for (fa_tensor *t : {&call.q, &call.k, &call.v, &call.dq}) t->stride[0] *= 2, t->stride[1] *= 2;
    const GuardedMemory unreadable(0, Guard::end);
    for (const int32_t *fa_backward_args::*array : {&fa_backward_args::cu_seqlens_q, &fa_backward_args::cu_seqlens_k,
                                                    &fa_backward_args::seqused_k, &fa_backward_args::kv_batch_idx})
      if (call.*array) call.*array = reinterpret_cast<const int32_t *>(unreadable.data());
    EXPECT_EQ(workspace_size(instance.desc, call), with) << to_text(c);
  }
}

TEST_P(BackwardMemory, AWorkspaceTooSmallIsRefused) {
  for (const Case &c : cases()) {
    const BackwardInstance instance(c);
    const Op op(instance.desc, kernel);
    fa_backward_args call = instance.call;
    const size_t bytes = workspace_size(instance.desc, call);
    ASSERT_GT(bytes, 0u);
    const GuardedMemory memory((bytes + 255) / 256 * 256, Guard::start);
    call.workspace = memory.data();
    call.workspace_size = bytes - 1;
    const std::vector<char> before = instance.gradient_bits();
    EXPECT_EQ(fa_backward(op.get(), &call), FA_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(fa_last_error()).find("fa_backward_workspace_size"), std::string::npos) << fa_last_error();
    EXPECT_EQ(instance.gradient_bits(), before);
  }
}

TEST_TARGETS(BackwardMemory, {"f32"});

}  // namespace
}  // namespace test
