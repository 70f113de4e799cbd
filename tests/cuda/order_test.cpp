// A call's place among the work that its stream, or the legacy one, already has: inputs that come late are the ones
// that count, wherever they are.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "cuda/fixture.h"
#include "support/child.h"

namespace cuda_test {
namespace {

/// A host function of a stream: waits until it is opened, then writes the queries, which were zeros until then.
struct LateQueries {
  explicit LateQueries(Call *call) : place(static_cast<char *>(call->args.q.data)), bytes(call->instance.q.bytes()) {
    std::memset(place, 0, bytes.size());
  }
  ~LateQueries() {
    open = true;
    wait();
  }
  void wait() const {
    while (!written) std::this_thread::yield();
  }
  static void write(void *) {
    LateQueries &late = *next;
    while (!late.open) std::this_thread::yield();
    std::memcpy(late.place, late.bytes.data(), late.bytes.size());
    late.written = true;
  }
  CUresult enqueue(CUstream stream) {
    next = this;
    const CUresult result = call("cuLaunchHostFunc", stream, &LateQueries::write, nullptr);
    written = result != CUDA_SUCCESS;
    return result;
  }
  char *place;
  const std::vector<char> bytes;
  std::atomic<bool> open = false, written = true;
  // Handed over, and waited for, where ThreadSanitizer sees it: the driver's locks it does not see.
  static inline std::atomic<LateQueries *> next = nullptr;
};

/// Memory of the host that the device reaches by a registration, or by itself.
void expect_calls_in_their_turn(Where where) {
  const InContext in;
  const Stream stream;
  for (const Case &c : {small_case(), split_case()}) {
    Call own(c, where);
    const Op op(desc_of(c));
    own.args.stream = stream.handle;
    LateQueries late(&own);
    ASSERT_EQ(late.enqueue(stream.handle), CUDA_SUCCESS);
    ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();  // returns, and the queries are still to come
    late.open = true;
    ASSERT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
    late.wait();
    EXPECT_EQ(own.failure(), "");
  }
}

// [F131]
TEST(Order, ACallIsBehindWhatItsStreamHas) {
  expect_calls_in_their_turn(Where::pinned);
}

/// body() in a process with a device that reaches all memory of the host.
template <class Body>
void with_pageable_access(Body body) {
  if (!is_emulated()) GTEST_SKIP() << needs_the_emulator;
  enum { fine, wrong, left_out };
  const int outcome = in_child({{"FA_EMU_DEVICE", "sm_80:pageable"}, {"FA_EMU_QUIET", "1"}}, [&] {
    if (!is_built("sm_80")) return int(left_out);
    body();
    return int(testing::Test::HasFailure() ? wrong : fine);
  });
  if (outcome == left_out) GTEST_SKIP() << "FA_ARCHS leaves out 80";
  EXPECT_EQ(outcome, fine);
}

TEST(PageableOrder, ACallIsBehindWhatItsStreamHas) {
  with_pageable_access([] { expect_calls_in_their_turn(Where::host); });
}

/// Under FA_FLAG_DEVICE_POINTERS it waits for nothing.
// [F318]
TEST(PageableOrder, ACallWithAPromiseIsEnqueued) {
  with_pageable_access([] {
    const InContext in;
    for (const Case &c : {small_case(), split_case()}) {
      Call own(c, Where::host);
      fa_desc desc = desc_of(c);
      desc.flags |= FA_FLAG_DEVICE_POINTERS;
      const Op op(desc);
      LateQueries late(&own);
      ASSERT_EQ(late.enqueue(nullptr), CUDA_SUCCESS);
      std::thread opens([&] {  // a call that waits is over then
        for (int ms = 0; ms < 2000 && !late.open; ++ms) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        late.open = true;
      });
      EXPECT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
      EXPECT_FALSE(late.open);
      late.open = true;
      late.wait();
      EXPECT_EQ(call("cuCtxSynchronize"), CUDA_SUCCESS);
      EXPECT_EQ(own.failure(), "");
      opens.join();
    }
  });
}

/// Without a stream the call waits for the work of the legacy stream, as a call of the run-time would, and for itself.
// [F132]
TEST(PageableOrder, ACallWithoutAStreamIsBehindTheLegacyOne) {
  with_pageable_access([] {
    const InContext in;
    for (const Case &c : {small_case(), split_case()}) {
      Call own(c, Where::host);
      const Op op(desc_of(c));
      LateQueries late(&own);
      ASSERT_EQ(late.enqueue(nullptr), CUDA_SUCCESS);
      std::thread opens([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));  // a call that does not wait is over by then
        late.open = true;
      });
      EXPECT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
      late.wait();
      EXPECT_EQ(own.failure(), "");
      opens.join();
    }
  });
}

}  // namespace
}  // namespace cuda_test
