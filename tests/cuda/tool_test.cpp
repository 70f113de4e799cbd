// The tool `fa` on machines with GPUs: the list of them, and the reasons why one is not used.
#include <gtest/gtest.h>

#include "tool/program.h"

namespace {

std::string info(const std::map<std::string, std::string> &variables) {
  std::map<std::string, std::string> all = {{"FA_EMU_QUIET", "1"}};
  all.insert(variables.begin(), variables.end());
  const test::Finished f = test::fa({"info"}, all);
  EXPECT_EQ(f.code, 0);
  EXPECT_EQ(f.err, "");
  return f.out;
}

/// The lines of the section "GPUs".
std::string gpus(const std::map<std::string, std::string> &variables) {
  const std::string text = info(variables);
  const size_t begin = text.find("\nGPUs"), end = text.find("\nKernels");
  return begin < end ? text.substr(begin + 1, end - begin - 1) : "no section GPUs in " + text;
}

bool has(const std::string &text, const std::string &words) {
  return text.find(words) != text.npos;
}

TEST(Info, TellsEachGpu) {
  const std::string text = gpus({{"FA_EMU_DEVICE", "sm_80,sm_80:sms=14:memory=10G"}});
  EXPECT_TRUE(has(text, "GPUs, by a driver for CUDA 13.0:\n")) << text;
  EXPECT_TRUE(has(text, "\n  0 A100-SXM4-80GB (emulated), sm_80, 108 multiprocessors, 80.0 GiB: cuda.sm_80.")) << text;
  EXPECT_TRUE(has(text, "\n  1 A100-SXM4-80GB (emulated), sm_80, 14 multiprocessors, 10.0 GiB: cuda.sm_80.")) << text;
}

/// The line with the remedy: kernels that were built with CUDA 13 take a driver of 580 or later.
TEST(Info, TellsWhichDriverIsNeeded) {
  if (TEST_CUDA_VERSION < 13000) GTEST_SKIP() << "kernels of CUDA 12, whose drivers are the suite Drivers'";
  for (const auto &[version, shown] : {std::pair("12040", std::string("12.4")), {"12080", "12.8"}, {"12090", "12.9"}}) {
    const std::string text = info({{"FA_EMU_DRIVER", version}});
    EXPECT_TRUE(has(text, "GPUs, by a driver for CUDA " + shown)) << text;
    const std::string reason = "NVIDIA's driver is for CUDA " + shown +
                               ", and the kernels of this build need one for 13.0: update the driver to 580 or later, "
                               "or build libfa with -DFA_CUDA=12, whose kernels run on drivers from 525 on";
    EXPECT_TRUE(has(text, "CUDA 13.0 (driver 580 or later)")) << "the build\n" << text;
    EXPECT_TRUE(has(text, "sm_80, 108 multiprocessors, 80.0 GiB: no: desc.device is FA_DEVICE_CUDA, but " + reason))
        << text;
    EXPECT_TRUE(has(text, "no: " + reason)) << "a kernel's line\n" << text;
    EXPECT_FALSE(has(text, "nothing: ")) << "the CPU runs it\n" << text;
  }
  EXPECT_TRUE(has(gpus({{"FA_EMU_DRIVER", "11040"}}), "580 or later"));
  EXPECT_TRUE(has(gpus({{"FA_EMU_DRIVER", "13000"}}), ": cuda.sm_80."));
}

TEST(Info, TellsWhyThereIsNone) {
  const std::string text = gpus({{"FA_EMU_DEVICE", "none"}});
  EXPECT_TRUE(has(text, "\n  none: ")) << text;
  EXPECT_TRUE(has(text, "CUDA_ERROR_NO_DEVICE")) << text;
}

TEST(Info, TellsWhatKeepsAGpuFromServingNow) {
  const std::string text = gpus({{"FA_EMU_DEVICE", "sm_80:busy,sm_80"}});
  EXPECT_TRUE(has(text, "80.0 GiB: no: cuDevicePrimaryCtxRetain failed: CUDA_ERROR_DEVICE_UNAVAILABLE")) << text;
  EXPECT_TRUE(has(text, "\n  1 A100-SXM4-80GB (emulated), sm_80, 108 multiprocessors, 80.0 GiB: cuda.sm_80.")) << text;
}

/// A failing call of the driver hides one GPU, which says so, and leaves the other.
TEST(Info, TellsOfAGpuThatIsNotDescribed) {
  int found = 0;
  for (const char *failing : {"cuDeviceGet:2", "cuDeviceGet:3", "cuDeviceGetAttribute:5", "cuDeviceGetAttribute:18"}) {
    const std::string text = gpus({{"FA_EMU_DEVICE", "sm_80:busy,sm_80:busy"}, {"FA_EMU_FAIL", failing}});
    const bool first = has(text, "does not describe device 0"), second = has(text, "does not describe device 1");
    if (!first && !second) continue;
    found++;
    EXPECT_NE(first, second) << text;
    EXPECT_TRUE(has(text, "CUDA_ERROR_DEVICE_UNAVAILABLE")) << "the other one\n" << text;
  }
  EXPECT_GT(found, 0);
}

TEST(Run, TellsWhatWorksWithoutAGpuThatIsTaken) {
  const std::string data = TEST_DATA, layer = data + "/layer0_";
  const test::Finished f = test::fa({"run", "--q", layer + "q.npy", "--k", layer + "k.npy", "--v", layer + "v.npy",
                                     "--cu-seqlens", data + "/cu_seqlens.npy", "--repeat", "1"},
                                    {{"FA_EMU_DEVICE", "sm_80:busy"}, {"FA_EMU_QUIET", "1"}});
  EXPECT_EQ(f.code, 1);
  EXPECT_TRUE(has(f.err, "CUDA_ERROR_DEVICE_UNAVAILABLE")) << f.err;
  EXPECT_TRUE(has(f.err, "--device cpu")) << f.err;
}

/// With a bias, which no kernel for warpgroups has.
TEST(Run, CasesThatTheBestKernelLeavesToOthers) {
  const test::Finished f = test::fa({"run", "--device", "cuda", "--case", "sq=20 sk=30 d=64 bias=f16:hk q=f16"},
                                    {{"FA_EMU_DEVICE", "sm_90a"}, {"FA_EMU_QUIET", "1"}});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_TRUE(has(f.out, "\nright ")) << f.out;
}

}  // namespace
