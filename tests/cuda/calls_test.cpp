// How often a call asks the driver: on a driver that does nothing but count (bench/null_driver.cpp), whose device has
// the architecture that FA_NULL_SM names.
#include <dlfcn.h>

#include <cstdlib>

#include "cuda/fixture.h"

namespace cuda_test {
namespace {

using Calls = unsigned long long (*)(const char *name);

/// The driver's own count; nullptr where it does not count.
Calls counter() {
  return reinterpret_cast<Calls>(dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "fa_null_driver_calls"));
}

struct Counts {
  unsigned long long queries, maps, launches, others;
};

/// The calls of the driver that `call` makes, once all kernels are loaded.
template <class F>
Counts calls_of(F call) {
  const auto now = [] {
    const Calls calls = counter();
    const Counts all = {calls("cuPointerGetAttributes"), calls("cuTensorMapEncodeTiled"), calls("cuLaunchKernelEx"), 0};
    return Counts{all.queries, all.maps, all.launches, calls(nullptr) - all.queries - all.maps - all.launches};
  };
  EXPECT_EQ(call(), FA_OK) << fa_last_error();
  const Counts before = now();
  EXPECT_EQ(call(), FA_OK) << fa_last_error();
  const Counts after = now();
  return {after.queries - before.queries, after.maps - before.maps, after.launches - before.launches,
          after.others - before.others};
}

/// Addresses that nobody reads, far apart.
class Addresses {
 public:
  void *next() { return reinterpret_cast<void *>(next_ += uint64_t{1} << 34); }

 private:
  uint64_t next_ = uint64_t{1} << 40;
};

/// Runs a body without and with the promise.
class DriverCalls : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    if (counter() == nullptr) GTEST_SKIP() << "the driver does not count its calls";
    const char *sm = std::getenv("FA_NULL_SM");
    const std::string arch = std::string("sm_") + (sm != nullptr ? sm : "80");
    if (!is_built(arch) && !is_built(arch + "a")) GTEST_SKIP() << "FA_ARCHS leaves out " << arch;
    fa_desc_init(&desc, sizeof desc);
    desc.device = FA_DEVICE_CUDA, desc.dtype_q = FA_F16, desc.head_dim = 128;
    desc.flags = GetParam();
  }

  bool promised() const { return GetParam() & FA_FLAG_DEVICE_POINTERS; }

  /// A stream of the context, which a call asks two things about.
  static constexpr int of_stream = 2;
  static void *stream() { return reinterpret_cast<void *>(uintptr_t{64}); }

  /// Holds the counts to the number of pointers that a call has.
  void expect(const Counts &counts, unsigned pointers) const {
    EXPECT_EQ(counts.queries, promised() ? 0 : pointers);
    EXPECT_LE(counts.others + counts.launches, max_others + (counts.launches > 2 ? counts.launches - 2 : 0));
    RecordProperty("queries", int(counts.queries));
    RecordProperty("maps", int(counts.maps));
    RecordProperty("launches", int(counts.launches));
    RecordProperty("others", int(counts.others));
  }
  static constexpr unsigned max_others = 6;  // of a call of one or two launches

  /// Of a forward call whose tensors are `rows` queries over `keys` keys.
  Counts forward(int64_t batch, int64_t rows, int64_t keys, int64_t heads_q, int64_t heads_kv, bool used = false,
                 bool workspace = true) {
    const Op op(desc);
    EXPECT_EQ(op.status, FA_OK) << fa_last_error();
    Addresses at;
    fa_forward_args args;
    fa_forward_args_init(&args, sizeof args);
    fa_tensor_init(&args.q, at.next(), FA_F16, batch, rows, heads_q, 128);
    fa_tensor_init(&args.k, at.next(), FA_F16, batch, keys, heads_kv, 128);
    fa_tensor_init(&args.v, at.next(), FA_F16, batch, keys, heads_kv, 128);
    fa_tensor_init(&args.out, at.next(), FA_F16, batch, rows, heads_q, 128);
    if (used) args.seqused_k = static_cast<const int32_t *>(at.next());
    if (workspace) {
      EXPECT_EQ(fa_forward_workspace_size(op.op, &args, &args.workspace_size), FA_OK) << fa_last_error();
    }
    if (args.workspace_size != 0) args.workspace = at.next();
    args.stream = stream();
    pointers_ = 4 + (used ? 1 : 0) + (args.workspace_size != 0 ? 1 : 0);
    return calls_of([&] { return fa_forward(op.op, &args); });
  }

  fa_desc desc;
  unsigned pointers_ = 0;
};

// [F317]
TEST_P(DriverCalls, Prefill) {
  desc.mask = FA_MASK_CAUSAL;
  for (const int64_t rows : {512, 16384}) {  // those of long work take tiles by tickets on SM 90
    const Counts counts = forward(4, rows, rows, 32, 8);
    expect(counts, pointers_);
    const char *sm = std::getenv("FA_NULL_SM");
    const bool in_boxes = sm != nullptr && std::atoi(sm) >= 90;
    EXPECT_GE(counts.maps, in_boxes ? 3u : 0u);  // of q, k and v, and may be of out
    EXPECT_LE(counts.maps, in_boxes ? 4u : 0u);
  }
}

/// On SM 90 a launch, whose tickets are cleared, for every 20628 work tiles: 191 for each of 108 blocks.
TEST_P(DriverCalls, ManyWorkTiles) {
  desc.mask = FA_MASK_CAUSAL;
  const char *sm = std::getenv("FA_NULL_SM");
  const bool by_tickets = sm != nullptr && std::atoi(sm) == 90;
  const unsigned long long cleared = counter()("cuMemsetD32Async");
  const Counts counts = forward(64, 16384, 16384, 32, 8);
  EXPECT_EQ(counts.launches, by_tickets ? 13u : 1u);
  EXPECT_EQ(counter()("cuMemsetD32Async") - cleared, by_tickets ? 26u : 0u);  // the call is made twice
}

// [F317]
TEST_P(DriverCalls, DecodeInSplits) {
  const Counts counts = forward(1, 1, 32768, 32, 8, true);
  EXPECT_EQ(counts.launches, 2u);
  expect(counts, pointers_);
}

// [F317]
TEST_P(DriverCalls, FewRowsOverLongKeys) {
  const Counts counts = forward(1, 256, 131072, 8, 1);
  expect(counts, pointers_);
}

/// The stream's memory is asked for and given back once a call, and nothing of it is kept.
TEST_P(DriverCalls, WithoutAWorkspace) {
  const unsigned long long allocated = counter()("cuMemAllocAsync"), freed = counter()("cuMemFreeAsync");
  const Counts given = forward(1, 1, 32768, 32, 8), own = forward(1, 1, 32768, 32, 8, false, false);
  EXPECT_EQ(own.others, given.others + 2);
  EXPECT_EQ(own.launches, given.launches);
  EXPECT_EQ(counter()("cuMemAllocAsync") - allocated, 2u);  // the call is made twice
  EXPECT_EQ(counter()("cuMemFreeAsync") - freed, 2u);
}

// [F317]
TEST_P(DriverCalls, Gradients) {
  desc.dtype_q = FA_F32;
  const Op op(desc);
  ASSERT_EQ(op.status, FA_OK) << fa_last_error();
  Addresses at;
  fa_backward_args args;
  fa_backward_args_init(&args, sizeof args);
  for (fa_tensor *rows : {&args.q, &args.k, &args.v, &args.out, &args.dout, &args.dq, &args.dk, &args.dv})
    fa_tensor_init(rows, at.next(), FA_F32, 2, 1024, 8, 128);
  fa_tensor_init(&args.lse, at.next(), FA_F32, 2, 8, 1024, 1);
  ASSERT_EQ(fa_backward_workspace_size(op.op, &args, &args.workspace_size), FA_OK) << fa_last_error();
  args.workspace = at.next();
  args.stream = stream();
  expect(calls_of([&] { return fa_backward(op.op, &args); }), 10);
}

// [F317]
TEST_P(DriverCalls, Merge) {
  const Op op(desc);
  ASSERT_EQ(op.status, FA_OK) << fa_last_error();
  Addresses at;
  fa_tensor outs[3], lses[3];
  for (int i = 0; i < 3; ++i) {
    fa_tensor_init(&outs[i], at.next(), FA_F16, 2, 64, 8, 128);
    fa_tensor_init(&lses[i], at.next(), FA_F32, 2, 8, 64, 1);
  }
  fa_merge_args args;
  fa_merge_args_init(&args, sizeof args);
  args.outs = outs, args.lses = lses, args.num_parts = 3, args.stream = stream();
  fa_tensor_init(&args.out, at.next(), FA_F16, 2, 64, 8, 128);
  expect(calls_of([&] { return fa_merge(op.op, &args); }), 7);
}

// [F317]
TEST_P(DriverCalls, Append) {
  const Op op(desc);
  ASSERT_EQ(op.status, FA_OK) << fa_last_error();
  Addresses at;
  fa_append_args args;
  fa_append_args_init(&args, sizeof args);
  for (fa_tensor *rows : {&args.k, &args.v}) fa_tensor_init(rows, at.next(), FA_F16, 2, 4, 8, 128);
  for (fa_tensor *cache : {&args.k_cache, &args.v_cache}) fa_tensor_init(cache, at.next(), FA_F16, 2, 512, 8, 128);
  args.cache_seqlens = static_cast<const int32_t *>(at.next());
  args.stream = stream();
  expect(calls_of([&] { return fa_append(op.op, &args); }), 5);
}

INSTANTIATE_TEST_SUITE_P(Pointers, DriverCalls, testing::Values(0u, uint32_t{FA_FLAG_DEVICE_POINTERS}),
                         [](const auto &one) { return one.param == 0 ? "AskedAbout" : "Promised"; });

}  // namespace
}  // namespace cuda_test
