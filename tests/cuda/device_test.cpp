// Which kernels a GPU runs, of every generation: the table of docs/gpus.md.
#include <cstdio>

#include "cuda/fixture.h"

namespace cuda_test {
namespace {

struct Served {
  const char *device, *f16, *bf16, *f32;
};

constexpr Served table[] = {
    {"sm_75", "cuda.sm_75.mma", "cuda.sm_75.simt", "cuda.sm_75.simt"},
    {"sm_80", "cuda.sm_80.mma", "cuda.sm_80.mma", "cuda.sm_80.simt"},
    {"sm_86", "cuda.sm_86.mma", "cuda.sm_86.mma", "cuda.sm_86.simt"},
    {"sm_87", "cuda.sm_86.mma", "cuda.sm_86.mma", "cuda.sm_86.simt"},
    {"sm_88", "cuda.sm_86.mma", "cuda.sm_86.mma", "cuda.sm_86.simt"},
    {"sm_89", "cuda.sm_89.mma", "cuda.sm_89.mma", "cuda.sm_89.simt"},
    {"sm_90", "cuda.sm_90a.mma", "cuda.sm_90a.mma", "cuda.sm_90a.simt"},
    {"sm_100", "cuda.sm_100a.mma", "cuda.sm_100a.mma", "cuda.sm_100a.simt"},
    {"sm_103", "cuda.sm_100a.mma", "cuda.sm_100a.mma", "cuda.sm_100a.simt"},
    {"sm_110", "cuda.sm_89.mma", "cuda.sm_89.mma", "cuda.sm_89.simt"},
    {"sm_120", "cuda.sm_120.mma", "cuda.sm_120.mma", "cuda.sm_120.simt"},
    {"sm_121", "cuda.sm_120.mma", "cuda.sm_120.mma", "cuda.sm_120.simt"},
    {"sm_130", "cuda.sm_120.mma", "cuda.sm_120.mma", "cuda.sm_120.simt"},
};

std::string chosen(fa_dtype dtype) {
  Case c = small_case();
  c.q = dtype;
  const Op op(desc_of(c));
  return op.status == FA_OK ? op.kernel() : fa_last_error();
}

/// Each kernel is loaded, too, and runs a call.
int check(const Served &served) {
  int wrong = 0;
  for (const auto &[dtype, kernel] : {std::pair{FA_F16, served.f16}, {FA_BF16, served.bf16}, {FA_F32, served.f32}}) {
    const std::string got = chosen(fa_dtype(dtype));
    if (got != kernel) ++wrong, std::fprintf(stderr, "%s: %s, expected %s\n", served.device, got.c_str(), kernel);
    const InContext in;
    Case c = split_case();
    c.q = fa_dtype(dtype);
    Call own(c);
    const Op op(desc_of(c));
    const bool ran = op.status == FA_OK && fa_forward(op.op, &own.args) == FA_OK;
    const std::string failure = ran ? own.failure() : fa_last_error();
    if (!failure.empty()) ++wrong, std::fprintf(stderr, "%s: %s\n", served.device, failure.c_str());
  }
  return wrong;
}

/// The table is that of the default FA_ARCHS: with fewer, lines whose kernels are there still hold.
bool has_kernels(const Served &served) {
  return is_built(served.f16) && is_built(served.bf16) && is_built(served.f32);
}

TEST(Devices, EachRunsWhatTheTableSays) {
  int devices = 0;
  std::string others;
  for (const Served &served : table) {
    // In a child as well: asking which kernels there are starts the driver.
    if (in_child({{"FA_EMU_DEVICE", served.device}}, [&] { return has_kernels(served) ? 0 : 1; }) != 0) {
      others += std::string(" ") + served.device;
      continue;
    }
    ++devices;
    EXPECT_EQ(in_child({{"FA_EMU_DEVICE", served.device}}, [&] { return check(served); }), 0) << served.device;
  }
  if (!others.empty()) std::printf("FA_ARCHS leaves out the kernels of%s\n", others.c_str());
  if (devices == 0) GTEST_SKIP() << "FA_ARCHS has none of the kernels that the table names";
}

TEST(Devices, OneBeforeTuringIsRefusedByItsName) {
  const int outcome = in_child({{"FA_EMU_DEVICE", "sm_70"}}, [] {
    const Op op(desc_of(small_case())), on_cpu(desc_of(small_case(), FA_DEVICE_AUTO));
    if (op.status != FA_ERROR_NO_DEVICE || on_cpu.status != FA_OK) return 1;
    return last_error_lacks({"sm_70", "Turing"}).empty() ? 0 : 2;
  });
  EXPECT_EQ(outcome, 0);
}

/// Kernels of an older architecture run on newer devices, from their PTX.
TEST(Devices, OlderKernelsRunByName) {
  for (const char *device : {"sm_80", "sm_90", "sm_120"}) {
    const int outcome = in_child({{"FA_EMU_DEVICE", device}, {"FA_FORCE_KERNEL", "cuda.sm_75.simt"}}, [] {
      if (!is_built("cuda.sm_75.simt")) return 3;
      const InContext in;
      Call own(split_case());
      const Op op(desc_of(split_case(), FA_DEVICE_AUTO));
      if (op.kernel() != "cuda.sm_75.simt" || fa_forward(op.op, &own.args) != FA_OK) return 1;
      // A kernel asked for by name is not replaced by the CPU.
      Call host(split_case(), Where::host);
      return fa_forward(op.op, &host.args) == FA_ERROR_INVALID_ARGUMENT && own.failure().empty() ? 0 : 2;
    });
    if (outcome == 3) GTEST_SKIP() << "FA_ARCHS leaves out 75";
    EXPECT_EQ(outcome, 0) << device;
  }
}

TEST(Devices, OlderArchitecturesByMaxArch) {
  const int outcome = in_child({{"FA_EMU_DEVICE", "sm_90"}, {"FA_MAX_ARCH", "sm_80"}}, [] {
    if (!is_built("sm_80")) return 2;
    return chosen(FA_F32) == "cuda.sm_80.simt" ? 0 : 1;
  });
  if (outcome == 2) GTEST_SKIP() << "FA_ARCHS leaves out 80";
  EXPECT_EQ(outcome, 0);
}

}  // namespace
}  // namespace cuda_test
