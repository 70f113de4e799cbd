// Whatever fails beneath the library - any call of the driver, memory of the device, an image, the driver itself - is
// an error with a text, writes no output, and does not affect the next call.
#include <cstdio>
#include <cstring>

#include "cuda/child.h"
#include "cuda/fixture.h"

namespace cuda_test {
namespace {

bool outputs_untouched(const Instance &instance) {
  const std::vector<char> none(size_t(instance.out.shape()[0] * instance.out.shape()[1]), 0);
  return instance.out.untouched_outside(none).empty() && instance.lse.untouched_outside(none, 2).empty();
}

/// Creates and runs an op, twice if the first time fails, as only one call of the driver does.
int run_with_one_failure(const Case &c, fa_device device) {
  // The fixture's own calls fail, too, and say so.
  if (std::freopen("/dev/null", "w", stdout) == nullptr) return not_ours;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  if (call("cuInit", 0u) || call("cuDevicePrimaryCtxRetain", &context, 0) || call("cuCtxSetCurrent", context) ||
      call("cuStreamCreate", &stream, 1u))
    return not_ours;
  std::unique_ptr<Call> own;
  try {
    own = std::make_unique<Call>(c, Where::managed);
  } catch (...) {
    return not_ours;
  }
  if (testing::Test::HasFailure()) return not_ours;
  own->args.stream = stream;

  bool failed = false;
  const auto judge = [&](fa_status status, const char *what) -> int {
    if (status == FA_OK) return fine;
    const std::string text = fa_last_error();
    const bool named = text.find("failed: CUDA_ERROR_UNKNOWN") != std::string::npos;
    if (!named && text.find("cuGetErrorName") == std::string::npos) return bad(what + (": \"" + text + "\""));
    if (status != FA_ERROR_DRIVER && status != FA_ERROR_NO_DEVICE) return bad(std::string(what) + ": status");
    if (failed) return bad(std::string(what) + " fails again: " + text);
    failed = true;
    return reported;
  };
  auto op = std::make_unique<Op>(desc_of(c, device));
  if (device == FA_DEVICE_AUTO && op->status != FA_OK) return bad(std::string("fa_create, auto: ") + fa_last_error());
  if (const int outcome = judge(op->status, "fa_create")) {
    if (outcome == wrong || op->op != nullptr) return wrong;
    if (op->status == FA_ERROR_NO_DEVICE) return reported;  // the driver is asked once a process
    op = std::make_unique<Op>(desc_of(c, device));
    if (judge(op->status, "fa_create") != fine) return wrong;
  }
  fa_status status = fa_forward(op->op, &own->args);
  if (const int outcome = judge(status, "fa_forward")) {
    if (outcome == wrong) return wrong;
    if ((status = fa_forward(op->op, &own->args)) != FA_OK) return judge(status, "fa_forward");
  }
  const std::string failure = own->failure();
  if (testing::Test::HasFailure() || failure.rfind("the ", 0) == 0) return failed ? wrong : not_ours;
  if (!failure.empty()) return bad(failure);
  if (failed) return reported;
  // Call k, if it is still to come, is one of these.
  int version = 0;
  for (int i = 0; i < 1000; ++i)
    if (call("cuDriverGetVersion", &version) != CUDA_SUCCESS) return over;
  return fine;
}

class Fault : public OnTheEmulator {};
class TensorMaps : public OnTheEmulator {};

// [F73]
TEST_F(Fault, EveryCallOfTheDriver) {
  ASSERT_FALSE(driver_is_loaded()) << needs_its_own_process;
  for (const fa_device device : {FA_DEVICE_CUDA, FA_DEVICE_AUTO}) {
    int errors = 0, none = 0;
    for (int k = 1, outcome = fine; outcome != over; ++k) {
      const std::string number = std::to_string(k);
      outcome = in_child({{"FA_EMU_FAIL", number.c_str()}, {"FA_EMU_QUIET", "1"}},
                         [&] { return run_with_one_failure(split_case(), device); });
      ASSERT_NE(outcome, wrong) << "call " << k;
      ASSERT_LT(outcome, 100) << "call " << k << " kills the process";
      errors += outcome == reported;
      none += outcome == fine;
    }
    // Auto gets by without a driver that does not start, and kernels that do not load are loaded again by the call.
    EXPECT_GT(device == FA_DEVICE_CUDA ? errors : none, 25) << "too few calls were seen to fail";
    EXPECT_GT(errors, 5) << "too few calls were seen to fail";
  }
}

/// With a driver that does not say where memory is.
// [F317]
TEST_F(Fault, APromiseOfDevicePointersAsksNoPointer) {
  ASSERT_FALSE(driver_is_loaded()) << needs_its_own_process;
  for (const Where where : {Where::device, Where::managed}) {
    for (const bool promise : {false, true}) {
      const int outcome = in_child({{"FA_EMU_FAIL", "cuPointerGetAttributes"}, {"FA_EMU_QUIET", "1"}}, [&] {
        const InContext in;
        Call own(split_case(), where);
        fa_desc desc = desc_of(split_case());
        if (promise) desc.flags |= FA_FLAG_DEVICE_POINTERS;
        const Op op(desc);
        if (op.status != FA_OK) return bad(fa_last_error());
        if (fa_forward(op.op, &own.args) != FA_OK)
          return last_error_lacks({"cuPointerGetAttributes failed", "CUDA_ERROR_UNKNOWN"}).empty()
                     ? int(reported)
                     : bad(fa_last_error());
        const std::string failure = own.failure();
        return failure.empty() ? int(fine) : bad(failure);
      });
      EXPECT_EQ(outcome, promise ? fine : reported);
    }
  }
}

/// Memory of the host that the device does not reach: the fault is the stream's, and no output is there.
TEST_F(Fault, ABrokenPromiseIsTheDevicesFault) {
  const int outcome = in_child({{"FA_EMU_QUIET", "1"}}, [&] {
    const InContext in;
    const Stream stream;
    Call own(small_case()), host(small_case(), Where::host);
    fa_desc desc = desc_of(small_case());
    desc.flags |= FA_FLAG_DEVICE_POINTERS;
    const Op op(desc);
    own.args.stream = stream.handle;
    own.args.k.data = host.args.k.data;
    const fa_status status = fa_forward(op.op, &own.args);
    if (status != FA_OK && status != FA_ERROR_DRIVER) return bad(fa_last_error());
    return call("cuStreamSynchronize", stream.handle) != CUDA_SUCCESS ? int(reported) : int(fine);
  });
  EXPECT_EQ(outcome, reported);
}

/// A tensor map that the driver does not make is no error: mma computes the call, and the log has the reason. Without
/// one of out its rows are written one by one.
TEST_F(TensorMaps, AreNotMade) {
  ASSERT_FALSE(driver_is_loaded()) << needs_its_own_process;
  if (!in_child({}, [] { return int(is_built("cuda.sm_90a.wgmma") || is_built("cuda.sm_100a.tcgen05")); }))
    GTEST_SKIP() << "this build has no family with tensor maps";
  Case c = small_case();
  c.sq = 20, c.d = 96, c.q = FA_BF16;  // where the families have no other entry point that would do
  constexpr int others = over + 1, ours = over + 2;
  int of_inputs = 0, none = 0;
  for (int k = 1, outcome = fine; outcome != over; ++k) {
    const std::string number = std::to_string(k);
    outcome = in_child({{"FA_EMU_FAIL", number.c_str()}, {"FA_EMU_QUIET", "1"}}, [&]() -> int {
      Log said;
      const int result = run_with_one_failure(c, FA_DEVICE_CUDA);
      if (result != fine) return result;
      if (said.has("q, k or v of which the driver makes no tensor map"))
        return said.has(".mma fa_forward") ? others : bad(said.text);
      return said.has("call: cuda.sm_90a.wgmma") || said.has("call: cuda.sm_100a.tcgen05") ? ours : bad(said.text);
    });
    ASSERT_NE(outcome, wrong) << "call " << k;
    ASSERT_LT(outcome, 100) << "call " << k << " kills the process";
    of_inputs += outcome == others;
    none += outcome == ours;
  }
  EXPECT_EQ(of_inputs, 3) << "maps of q, k and v";
  EXPECT_GT(none, 0);
}

/// A device that the driver does not describe hides itself, and no other one. Busy ones take no time to be refused.
TEST_F(Fault, OneDeviceOfTwoIsNotDescribed) {
  int hidden[2] = {}, both = 0;
  std::vector<std::string> calls = {"cuInit", "cuDeviceGet:1", "cuDeviceGet:2"};
  for (int n = 1; n <= 26; ++n) calls.push_back("cuDeviceGetAttribute:" + std::to_string(n));
  for (const std::string &failing : calls) {
    const int outcome = in_child({{"FA_EMU_FAIL", failing.c_str()}, {"FA_EMU_DEVICE", "sm_80:busy,sm_80:busy"}}, [] {
      int lost = 0;
      for (const int device : {0, 1}) {
        const Op on_gpu(desc_of(small_case(), FA_DEVICE_CUDA, device));
        if (on_gpu.status != FA_ERROR_NO_DEVICE) continue;
        const std::string name = "does not describe device " + std::to_string(device);
        lost |= last_error_lacks({name, "failed: CUDA_ERROR_UNKNOWN"}).empty() ? 1 << device : 4;
        const Op on_any(desc_of(small_case(), FA_DEVICE_AUTO, device));
        if (on_any.kernel().rfind("cpu.", 0) != 0) return 10;
      }
      return lost;
    });
    ASSERT_TRUE(outcome == 0 || outcome == 1 || outcome == 2 || outcome == 4) << failing << ": " << outcome;
    for (const int device : {0, 1}) hidden[device] += outcome == 1 << device;
    both += outcome == 4;
  }
  constexpr int questions = 5;  // of each device; the others are hints
  EXPECT_EQ(hidden[0], questions);
  EXPECT_EQ(hidden[1], questions);
  EXPECT_GT(both, 0) << "a driver that does not start";
}

/// Of the attributes of a device four are needed. Without one of the others, or a name, calls are right.
TEST_F(Fault, HintsThatADriverDoesNotGive) {
  ASSERT_FALSE(driver_is_loaded()) << needs_its_own_process;
  constexpr int needed = 4, hints = 9;
  const auto outcome_without = [](const std::string &question) {
    return in_child({{"FA_EMU_FAIL", question.c_str()}, {"FA_EMU_DEVICE", "sm_80"}, {"FA_EMU_QUIET", "1"}}, [] {
      const Op op(desc_of(split_case()));
      if (op.status == FA_ERROR_NO_DEVICE)
        return last_error_lacks({"does not describe device 0", "cuDeviceGetAttribute failed"}).empty()
                   ? int(reported)
                   : bad(fa_last_error());
      if (op.status != FA_OK) return bad(fa_last_error());
      const InContext in;
      Call own(split_case());
      if (fa_forward(op.op, &own.args) != FA_OK) return bad(fa_last_error());
      const std::string failure = own.failure();
      return failure.empty() ? int(fine) : bad(failure);
    });
  };
  std::map<int, int> outcomes;
  for (int n = 1; n <= needed + hints; ++n) outcomes[outcome_without("cuDeviceGetAttribute:" + std::to_string(n))]++;
  const std::map<int, int> expected = {{fine, hints}, {reported, needed}};
  EXPECT_EQ(outcomes, expected);
  EXPECT_EQ(outcome_without("cuDeviceGetName"), fine);
}

/// Each question of a call, by its name: the first one that fails is an error that names it, and the next call is
/// right.
TEST_F(Fault, QuestionsOfACallByName) {
  ASSERT_FALSE(driver_is_loaded()) << needs_its_own_process;
  const struct {
    const char *function;
    std::vector<std::string> words;
  } questions[] = {{"cuPointerGetAttributes", {"cuPointerGetAttributes failed", "of args.q"}},
                   {"cuCtxGetCurrent:2", {"cuCtxGetCurrent failed"}},  // the first is fa_create's
                   {"cuCtxGetId:2", {"cuCtxGetId failed"}},
                   {"cuStreamIsCapturing", {"cuStreamIsCapturing failed", "args.stream"}},
                   {"cuStreamGetCtx", {"cuStreamGetCtx failed", "args.stream"}}};
  for (const auto &question : questions) {
    const int outcome = in_child({{"FA_EMU_FAIL", question.function}, {"FA_EMU_QUIET", "1"}}, [&] {
      const InContext in;
      const Stream stream;
      Call own(small_case());
      own.args.stream = stream.handle;
      const Op op(desc_of(small_case()));
      if (op.status != FA_OK) return bad(fa_last_error());
      if (fa_forward(op.op, &own.args) != FA_ERROR_DRIVER) return bad("no error");
      if (!last_error_lacks(question.words).empty() || !outputs_untouched(own.instance)) return bad(fa_last_error());
      if (fa_forward(op.op, &own.args) != FA_OK) return bad(fa_last_error());
      const std::string failure = own.failure();
      return failure.empty() ? int(fine) : bad(failure);
    });
    EXPECT_EQ(outcome, fine) << question.function;
  }
}

/// The tensors take no memory of the device; the library's own is short.
TEST_F(Fault, MemoryOfTheDevice) {
  int short_of_it = 0, enough = 0;
  for (const char *bytes : {"64", "256", "1K", "2K", "4K", "8K", "16K", "64K", "256K", "1M", "16M"}) {
    const int outcome = in_child({{"FA_EMU_MEMORY", bytes}, {"FA_EMU_QUIET", "1"}}, [] {
      const InContext in;
      Call own(split_case(), Where::pinned);
      const Op op(desc_of(split_case()));
      const fa_status status = op.op ? fa_forward(op.op, &own.args) : op.status;
      if (status == FA_OK) return int(own.failure().empty() ? fine : wrong);
      if (status != FA_ERROR_OUT_OF_MEMORY || !outputs_untouched(own.instance)) return int(wrong);
      return int(last_error_lacks({"CUDA_ERROR_OUT_OF_MEMORY"}).empty() ? reported : wrong);
    });
    EXPECT_TRUE(outcome == fine || outcome == reported) << bytes << ": " << outcome;
    short_of_it += outcome == reported;
    enough += outcome == fine;
  }
  EXPECT_GT(short_of_it, 0);
  EXPECT_GT(enough, 0);
}

/// Each of the library's own allocations, one at a time, is the first that the device has no room for: those of the two
/// images, and of partial results. With room again, everything is as it should be.
TEST_F(Fault, EveryAllocationOfTheDevice) {
  bool seen[3] = {};
  for (const size_t left : {0, 3, 4, 7, 8, 9, 1000, 4000}) {
    const int outcome = in_child({{"FA_EMU_MEMORY", "1M"}, {"FA_EMU_QUIET", "1"}}, [&] {
      const InContext in;
      Call own(split_case(), Where::pinned);
      CUdeviceptr others = 0;
      if (call("cuMemAlloc_v2", &others, (size_t{1} << 20) - left) != CUDA_SUCCESS) return int(not_ours);
      int which = 0;
      {
        const Op op(desc_of(split_case()));
        const fa_status status = op.op ? fa_forward(op.op, &own.args) : op.status;
        const std::string text = fa_last_error();
        if (status != FA_ERROR_OUT_OF_MEMORY || text.find("CUDA_ERROR_OUT_OF_MEMORY") == std::string::npos)
          return bad(std::to_string(status) + ": " + text);
        if (!outputs_untouched(own.instance)) return bad("outputs were written");
        which = op.op ? 2 : text.find(".combine") != std::string::npos ? 1 : 0;
        if (which == 2 && text.find("cuMemAllocAsync") == std::string::npos) return bad(text);
      }
      call("cuMemFree_v2", others);
      const Op op(desc_of(split_case()));
      if (op.op == nullptr || fa_forward(op.op, &own.args) != FA_OK) return bad(fa_last_error());
      const std::string failure = own.failure();
      return failure.empty() ? 10 + which : bad(failure);
    });
    ASSERT_GE(outcome, 10) << left << " bytes left";
    ASSERT_LE(outcome, 12) << left << " bytes left";
    seen[outcome - 10] = true;
  }
  EXPECT_TRUE(seen[0]) << "the image of the attention";
  EXPECT_TRUE(seen[1]) << "the image of the combination";
  EXPECT_TRUE(seen[2]) << "partial results";
}

TEST_F(Fault, AnOlderDriver) {
  if (TEST_CUDA_VERSION < 13000) GTEST_SKIP() << "kernels of CUDA 12, whose drivers are the suite Drivers'";
  const int outcome = in_child({{"FA_EMU_DRIVER", "12080"}}, [] {
    const Op op(desc_of(small_case())), on_cpu(desc_of(small_case(), FA_DEVICE_AUTO));
    const std::string lacks = last_error_lacks({"FA_DEVICE_CUDA", "CUDA 12.8", "580", "FA_CUDA=12", "FA_DEVICE_CPU"});
    if (op.status != FA_ERROR_NO_DEVICE || !lacks.empty()) return bad(lacks);
    return on_cpu.kernel().rfind("cpu.", 0) == 0 ? int(fine) : bad(on_cpu.kernel());
  });
  EXPECT_EQ(outcome, fine);
}

TEST_F(Fault, AVeryOldDriver) {
  if (TEST_CUDA_VERSION < 13000) GTEST_SKIP() << "kernels of CUDA 12, whose drivers are the suite Drivers'";
  const int outcome = in_child({{"FA_EMU_DRIVER", "11040"}}, [] {
    const Op op(desc_of(small_case()));
    const std::string lacks = last_error_lacks({"FA_DEVICE_CUDA", "580"});
    return op.status == FA_ERROR_NO_DEVICE && lacks.empty() ? int(fine) : bad(lacks);
  });
  EXPECT_EQ(outcome, fine);
}

TEST_F(Fault, NoGpu) {
  const int outcome = in_child({{"FA_EMU_DEVICE", "none"}, {"FA_EMU_QUIET", "1"}}, [] {
    const Op op(desc_of(small_case())), on_cpu(desc_of(small_case(), FA_DEVICE_AUTO));
    const std::string lacks = last_error_lacks({"CUDA_ERROR_NO_DEVICE"});
    if (op.status != FA_ERROR_NO_DEVICE || !lacks.empty()) return bad(lacks);
    return on_cpu.status == FA_OK ? int(fine) : bad(fa_last_error());
  });
  EXPECT_EQ(outcome, fine);
}

/// A process that inherits a started driver cannot use it; calls that the CPU can run are run there.
TEST(Forks, TheCpuRunsCalls) {
  const int outcome = in_child({}, [] {
    const Op on_any(desc_of(small_case(), FA_DEVICE_AUTO)), on_gpu(desc_of(small_case()));
    if (on_any.status != FA_OK || on_gpu.status != FA_OK) return bad(fa_last_error());
    return in_child({}, [&] {
      Call own(small_case(), Where::host);
      if (fa_forward(on_any.op, &own.args) != FA_OK) return bad(fa_last_error());
      if (const std::string failure = own.failure(); !failure.empty()) return bad(failure);
      if (fa_forward(on_gpu.op, &own.args) != FA_ERROR_DRIVER || !last_error_lacks({"forked", "spawn"}).empty())
        return bad(fa_last_error());
      const Op later(desc_of(small_case(), FA_DEVICE_AUTO)), none(desc_of(small_case()));
      if (later.status != FA_OK || later.kernel().rfind("cpu.", 0) != 0) return bad("fa_create: auto");
      return none.status == FA_ERROR_NO_DEVICE && last_error_lacks({"forked"}).empty() ? int(fine)
                                                                                       : bad(fa_last_error());
    });
  });
  EXPECT_EQ(outcome, fine);
}

}  // namespace
}  // namespace cuda_test
