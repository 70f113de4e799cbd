// Kernels compiled by nvcc, run on the emulated device that FA_EMU_DEVICE names.
#include <gtest/gtest.h>

#include <numeric>

#include "client.h"

namespace {

using emulated::Array;
using emulated::kernel;
using emulated::launch;

/// The kernels' PTX by the front end that the device's own compiler would use.
std::string basic() {
  emulated::start();
  const char *name = emulated::capability() >= 100 ? "basic.sm_100.ptx" : "basic.sm_80.ptx";
  return emulated::read_file(std::string(TEST_KERNELS "/") + name);
}

TEST(Kernels, VectorAdd) {
  constexpr int n = 1000;  // no multiple of the block
  CUfunction add = kernel(basic(), "vector_add");
  std::vector<float> a(n), b(n);
  std::iota(a.begin(), a.end(), 0.5f);
  std::iota(b.begin(), b.end(), 100.f);
  Array<float> da(a), db(b), sum(std::vector<float>(n, -1.f));
  ASSERT_EQ(launch(add, {8}, {128}, 0, da.address, db.address, sum.address, n), CUDA_SUCCESS);
  std::vector<float> result = sum.values();
  for (int i = 0; i < n; i++) ASSERT_EQ(result[i], a[i] + b[i]) << i;
}

TEST(Kernels, BlockSum) {
  constexpr int blocks = 37, threads = 256;
  CUfunction sum = kernel(basic(), "block_sum");
  std::vector<int> values(blocks * threads);
  for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<int>(i * i % 1009);
  Array<int> in(values), out(std::vector<int>(blocks, -1));
  ASSERT_EQ(launch(sum, {blocks}, {threads}, 0, in.address, out.address), CUDA_SUCCESS);
  std::vector<int> result = out.values();
  for (int b = 0; b < blocks; b++) {
    auto first = values.begin() + b * threads;
    ASSERT_EQ(result[b], std::accumulate(first, first + threads, 0)) << b;
  }
}

TEST(Kernels, DivergentLoop) {
  constexpr int n = 256;
  CUfunction collatz = kernel(basic(), "collatz");
  std::vector<unsigned> starts(n);
  std::iota(starts.begin(), starts.end(), 1u);
  Array<unsigned> in(starts), steps(starts), met(starts);
  ASSERT_EQ(launch(collatz, {2}, {128}, 0, in.address, steps.address, met.address), CUDA_SUCCESS);
  std::vector<unsigned> counts = steps.values(), ballots = met.values();
  for (int warp = 0; warp < n / 32; warp++) {
    unsigned expected = 0;
    for (int lane = 0; lane < 32; lane++) {
      unsigned count = 0;
      for (unsigned value = starts[warp * 32 + lane]; value != 1; count++)
        value = value % 2 ? 3 * value + 1 : value / 2;
      ASSERT_EQ(counts[warp * 32 + lane], count);
      expected |= (count > 20 ? 1u : 0u) << lane;
    }
    for (int lane = 0; lane < 32; lane++) ASSERT_EQ(ballots[warp * 32 + lane], expected) << warp << " " << lane;
  }
}

TEST(Kernels, Recursion) {
  CUfunction recursion = kernel(basic(), "recursion");
  Array<unsigned> out(std::vector<unsigned>(64, 99));
  ASSERT_EQ(launch(recursion, {1}, {64}, 0, out.address), CUDA_SUCCESS);
  const unsigned fibonacci[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
  std::vector<unsigned> result = out.values();
  for (int i = 0; i < 64; i++) ASSERT_EQ(result[i], fibonacci[i % 12]) << i;
}

TEST(Kernels, JumpTableConstantAndLocalMemory) {
  CUfunction jumps = kernel(basic(), "jumps");
  std::vector<int> modes(64);
  for (int i = 0; i < 64; i++) modes[i] = i * 5 % 9;
  Array<int> in(modes);
  Array<float> out(std::vector<float>(64, 0.f));
  ASSERT_EQ(launch(jumps, {1}, {64}, 0, in.address, out.address), CUDA_SUCCESS);
  std::vector<float> result = out.values();
  for (int i = 0; i < 64; i++) {
    float value = static_cast<float>((i & 7) + 1) + static_cast<float>((modes[i] & 15) * i);
    switch (modes[i]) {
      case 0:
        value += 1;
        break;
      case 1:
        value *= 2;
        break;
      case 2:
        value -= 3;
        break;
      case 3:
        value /= 7;
        break;
      case 4:
        value = -value;
        break;
      case 5:
        value = value * value;
        break;
      case 6:
        value += 3;
        break;
      default:
        break;
    }
    ASSERT_EQ(result[i], value) << i;
  }
}

TEST(Kernels, ThreeDimensions) {
  CUfunction where = kernel(basic(), "where");
  Array<int> out(std::vector<int>(3 * 2 * 2 * 60, -1));
  ASSERT_EQ(launch(where, {3, 2, 2}, {5, 4, 3}, 0, out.address), CUDA_SUCCESS);
  std::vector<int> result = out.values();
  for (size_t i = 0; i < result.size(); i++) ASSERT_EQ(result[i], static_cast<int>(i / 60 * 1000 + i % 60)) << i;
}

TEST(Kernels, LimitsOfLaunches) {
  CUfunction where = kernel(basic(), "where");
  Array<int> out(std::vector<int>(1));
  EXPECT_EQ(launch(where, {1, 65536}, {1}, 0, out.address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(where, {1}, {1025}, 0, out.address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(where, {1}, {1}, 1 << 20, out.address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(where, {0}, {1}, 0, out.address), CUDA_ERROR_INVALID_VALUE);
}

/// Faults end the context, so each has a separate process.
int code_of(const char *name, int at) {
  CUfunction function = kernel(basic(), name);
  Array<int> in(std::vector<int>(64)), out(std::vector<int>(64));
  CUresult first = at < 0 ? launch(function, {1}, {64}, 0, out.address)
                          : launch(function, {1}, {64}, 0, in.address, out.address, at);
  CUresult second = emulated::call("cuCtxSynchronize");
  return first == second ? first : -1;
}

TEST(Faults, BarrierThatNeverCompletes) {
  EXPECT_EXIT(std::_Exit(code_of("hang", -1) == CUDA_ERROR_LAUNCH_TIMEOUT ? 0 : 1), testing::ExitedWithCode(0), "");
}

TEST(Faults, ReadBeyondAnAllocation) {
  EXPECT_EXIT(std::_Exit(code_of("beyond", 1) == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 1), testing::ExitedWithCode(0), "");
}

TEST(Errors, Names) {
  const char *text = nullptr;
  ASSERT_EQ(emulated::call("cuGetErrorName", CUDA_ERROR_INVALID_PTX, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "CUDA_ERROR_INVALID_PTX");
  ASSERT_EQ(emulated::call("cuGetErrorString", CUDA_ERROR_OUT_OF_MEMORY, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "out of memory");
}

TEST(Errors, UnknownInstructionsAndTargets) {
  emulated::start();
  const char *head = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() {\n";
  EXPECT_THROW(kernel(std::string(head) + "frobnicate.b32 1;\nret;\n}\n", "k"), std::runtime_error);
  CUmodule module = nullptr;
  const char *other = ".version 9.0\n.target sm_90a\n.address_size 64\n";
  EXPECT_EQ(emulated::call("cuModuleLoadData", &module, static_cast<const void *>(other)), CUDA_ERROR_INVALID_PTX);
  const char *broken = "this is no PTX";
  EXPECT_EQ(emulated::call("cuModuleLoadData", &module, static_cast<const void *>(broken)), CUDA_ERROR_INVALID_PTX);
}

}  // namespace
