// The dispatch table over kernels made up for the test, which need no machine: every way to choose and to refuse. And
// the core beneath it, from inside.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "core/environment.h"
#include "core/log.h"
#include "core/status.h"
#include "cpu/cpu.h"
#include "cuda/cuda.h"
#include "dispatch/table.h"
#include "words.h"

namespace fa {
namespace {

const char *never(const KernelEntry &) {
  return "this machine has no such unit";
}
const char *here(const KernelEntry &) {
  return nullptr;
}
const char *bf16_only(const KernelEntry &, const Attention &a, MessageBuffer *) {
  return a.q_dtype == FA_BF16 ? nullptr : "it computes in bf16 only";
}
const char *small_only(const KernelEntry &, const Attention &a, MessageBuffer *) {
  return a.head_dim <= 64 ? nullptr : "head_dim is above 64";
}
const char *not_100(const KernelEntry &, const Attention &a, MessageBuffer *) {
  return a.head_dim == 100 ? "head_dim is 100" : nullptr;
}

/// GPUs' kernels look for the device that the attention names themselves.
const char *no_such_device(const KernelEntry &, const Attention &, MessageBuffer *) {
  return "this machine has no such GPU";
}

const char *why_no_gpu = nullptr;

constexpr KernelEntry of_gpu[] = {
    {"cuda.sm_2.new", FA_DEVICE_CUDA, "sm_2", "f32", {}, never, no_such_device, nullptr},
    {"cuda.sm_1.new", FA_DEVICE_CUDA, "sm_1", "f32", {}, here, not_100, nullptr},
};
constexpr KernelEntry of_cpu[] = {
    {"cpu.future", FA_DEVICE_CPU, "future", "f32", {}, never, small_only, nullptr},
    {"cpu.wide_bf16", FA_DEVICE_CPU, "wide", "bf16", {}, here, bf16_only, nullptr},
    {"cpu.wide", FA_DEVICE_CPU, "wide", "f32", {}, here, small_only, nullptr},
    {"cpu.plain", FA_DEVICE_CPU, "plain", "f32", {}, here, not_100, nullptr},
};

}  // namespace

KernelList cpu::kernels() {
  return {of_cpu, std::size(of_cpu)};
}
KernelList cuda::kernels() {
  return {of_gpu, std::size(of_gpu)};
}
const char *cuda::why_no_device(int32_t, MessageBuffer *) {
  return why_no_gpu;
}

namespace {

using api_test::missing_words;
using api_test::Variable;

Attention attention(fa_dtype dtype, int64_t head_dim) {
  Attention a;
  a.device = FA_DEVICE_CPU;
  a.q_dtype = dtype;
  a.head_dim = head_dim;
  return a;
}

std::string chosen(const Attention &a) {
  const KernelEntry *kernel = dispatch::choose(a);
  return kernel ? kernel->name : "";
}

// [F120]
TEST(Dispatch, TakesTheFirstThatSupportsIt) {
  EXPECT_EQ(chosen(attention(FA_BF16, 64)), "cpu.wide_bf16");
  EXPECT_EQ(chosen(attention(FA_F32, 64)), "cpu.wide");
  EXPECT_EQ(chosen(attention(FA_F32, 65)), "cpu.plain");
  Attention a = attention(FA_F32, 64);
  a.device = FA_DEVICE_AUTO;
  EXPECT_EQ(chosen(a), "cuda.sm_1.new");
}

// [F70] [F125]
TEST(Dispatch, WhenNoKernelRunsEachReasonIsNamed) {
  EXPECT_EQ(chosen(attention(FA_F32, 100)), "");
  EXPECT_EQ(last_status(), FA_ERROR_UNSUPPORTED);
  EXPECT_EQ(missing_words(last_error(), {"cpu.future: this machine has no", "cpu.wide_bf16: it computes in bf16 only",
                                         "cpu.wide: head_dim is above 64", "cpu.plain: head_dim is 100"}),
            "");
}

TEST(Dispatch, ReasonsOfOtherDevicesAreNotTold) {
  EXPECT_EQ(chosen(attention(FA_F32, 100)), "");
  EXPECT_EQ(std::string(last_error()).find("cuda"), std::string::npos) << last_error();
  Attention a = attention(FA_F32, 100);
  a.device = FA_DEVICE_CUDA;
  EXPECT_EQ(chosen(a), "");
  EXPECT_EQ(last_status(), FA_ERROR_UNSUPPORTED);
  EXPECT_EQ(
      missing_words(last_error(), {"cuda.sm_2.new: this machine has no such GPU", "cuda.sm_1.new: head_dim is 100"}),
      "");
  EXPECT_EQ(std::string(last_error()).find("cpu."), std::string::npos) << last_error();
}

// [F71]
TEST(Dispatch, CudaWithoutAGpu) {
  why_no_gpu = "the GPU is at the opera";
  Attention a = attention(FA_F32, 64);
  a.device = FA_DEVICE_CUDA;
  EXPECT_EQ(chosen(a), "");
  EXPECT_EQ(last_status(), FA_ERROR_NO_DEVICE);
  EXPECT_EQ(missing_words(last_error(), {"FA_DEVICE_CUDA", why_no_gpu, "FA_DEVICE_AUTO"}), "");
  why_no_gpu = nullptr;
}

TEST(Dispatch, ACpuKernelIsTheFallbackUnderAuto) {
  Attention a = attention(FA_F32, 64);
  a.device = FA_DEVICE_AUTO;
  const KernelEntry *gpu = dispatch::choose(a);
  ASSERT_NE(gpu, nullptr);
  ASSERT_NE(dispatch::cpu_fallback(*gpu, a), nullptr);
  EXPECT_STREQ(dispatch::cpu_fallback(*gpu, a)->name, "cpu.wide");
  EXPECT_EQ(dispatch::cpu_fallback(*dispatch::cpu_fallback(*gpu, a), a), nullptr);
  a.device = FA_DEVICE_CUDA;
  EXPECT_EQ(dispatch::cpu_fallback(*gpu, a), nullptr);
  const Variable force("FA_FORCE_KERNEL", "cuda.sm_1.new");
  a.device = FA_DEVICE_AUTO;
  EXPECT_EQ(dispatch::cpu_fallback(*gpu, a), nullptr);
}

TEST(Dispatch, MaxArchHoldsForItsOwnDevice) {
  const Variable max("FA_MAX_ARCH", "plain");
  EXPECT_EQ(chosen(attention(FA_BF16, 64)), "cpu.plain");
  Attention a = attention(FA_F32, 64);
  a.device = FA_DEVICE_AUTO;
  EXPECT_EQ(chosen(a), "cuda.sm_1.new");
}

TEST(Dispatch, MaxArchKeepsEveryKernelOfThatArch) {
  const Variable max("FA_MAX_ARCH", "wide");
  EXPECT_EQ(chosen(attention(FA_BF16, 64)), "cpu.wide_bf16");
}

TEST(Dispatch, MaxArchUnknownListsEachArchOnce) {
  const Variable max("FA_MAX_ARCH", "narrow");
  EXPECT_EQ(chosen(attention(FA_F32, 64)), "");
  EXPECT_EQ(missing_words(last_error(), {"narrow", "sm_2, sm_1, future, wide, plain"}), "");
}

// [F59]
TEST(Dispatch, ForcedKernelMustServe) {
  const struct {
    const char *name;
    const char *reason;
  } refused[] = {{"cuda.sm_1.new", "desc.device"}, {"cpu.future", "no such unit"}, {"cpu.wide_bf16", "bf16 only"}};
  for (const auto &kernel : refused) {
    const Variable force("FA_FORCE_KERNEL", kernel.name);
    EXPECT_EQ(chosen(attention(FA_F32, 64)), "");
    EXPECT_EQ(last_status(), FA_ERROR_UNSUPPORTED);
    EXPECT_EQ(missing_words(last_error(), {"FA_FORCE_KERNEL", kernel.name, kernel.reason}), "");
  }
  const Variable force("FA_FORCE_KERNEL", "cpu.plain"), max("FA_MAX_ARCH", "nonsense, overruled");
  EXPECT_EQ(chosen(attention(FA_F32, 64)), "cpu.plain");
}

TEST(Environment, NumbersInRangeOnly) {
  const auto number = [](const char *value) {
    const Variable variable("FA_TEST_NUMBER", value);
    return environment_number("FA_TEST_NUMBER", 1, 100, -7);
  };
  EXPECT_EQ(number("1"), 1);
  EXPECT_EQ(number("100"), 100);
  EXPECT_EQ(number("012"), 12);
  for (const char *value : {"", "0", "101", "-1", "0x10", "x", "5x", "5 ", "99999999999999999999999"}) {
    EXPECT_EQ(number(value), -7) << value;
  }
  EXPECT_EQ(environment_number("FA_TEST_NUMBER", 1, 100, -7), -7);
}

TEST(Status, TextsLongerThanTheBufferAreCut) {
  const std::string text(5000, 'x');
  EXPECT_EQ(fail(FA_ERROR_DRIVER, "%s", text.c_str()), FA_ERROR_DRIVER);
  EXPECT_EQ(last_status(), FA_ERROR_DRIVER);
  EXPECT_GT(std::strlen(last_error()), 500u);
  EXPECT_EQ(text.rfind(last_error(), 0), 0u);
  std::thread([] { EXPECT_EQ(last_status(), FA_OK); }).join();
}

TEST(Log, MessagesLongerThanTheBufferAreCut) {
  std::string got;
  set_log([](void *user, const char *line) { *static_cast<std::string *>(user) = line; }, &got);
  const std::string text(5000, 'y');
  log_message("%s", text.c_str());
  set_log(nullptr, nullptr);
  EXPECT_GT(got.size(), 500u);
  EXPECT_EQ(text.rfind(got, 0), 0u);
}

}  // namespace
}  // namespace fa
