// Scalar instructions as nvcc writes them for every SM: halves, fp8, cooperative groups, atomics of many blocks,
// printf, malloc, assert, pointers to functions (kernels/scalar.cu).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "format_reference.h"
#include "one_instruction.h"

namespace {

using emulated::Array;
using emulated::kernel;
using emulated::launch;
using reference::Mode;

struct ScalarKernels : testing::Test {
  void SetUp() override { emulated::start(); }
};
struct ScalarKernelFaults : testing::Test {};

CUfunction scalar(const char *name) {
  emulated::start();
  std::string device = std::getenv("FA_EMU_DEVICE") ? std::getenv("FA_EMU_DEVICE") : "sm_80";
  return kernel(emulated::read_file(std::string(TEST_KERNELS "/scalar.") + device + ".ptx"), name);
}

std::vector<float> numbers(size_t count) {
  std::vector<float> result(count);
  for (size_t i = 0; i < count; i++) result[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 16.f;
  return result;
}

/// In halves of the format: f of two roundings.
void check_halves(const char *name, const reference::Format &format, bool smaller) {
  std::vector<float> in = numbers(128);
  Array<float> from(in), to(std::vector<float>(256));
  ASSERT_EQ(launch(scalar(name), {1}, {64}, 0, from.address, to.address), CUDA_SUCCESS);
  std::vector<float> out = to.values();
  auto round = [&](double value) { return format.value(format.code(value, Mode::nearest, false)); };
  for (size_t i = 0; i < in.size(); i++) {
    size_t at = i / 2 * 4 + i % 2;
    double x = round(in[i]), y = round(x * x + x);
    ASSERT_EQ(out[at], y) << i;
    double second = smaller ? std::fmin(round(y * x), std::fabs(x)) : std::fmax(round(y + x), -x);
    ASSERT_EQ(out[at + 2], second) << i;
  }
}

TEST_F(ScalarKernels, Halves) {
  check_halves("halves", reference::f16, false);
}

TEST_F(ScalarKernels, Bfloats) {
  if (emulated::capability() < 80) GTEST_SKIP() << "bf16 arithmetic begins with SM 8.0";
  check_halves("bfloats", reference::bf16, true);
}

TEST_F(ScalarKernels, Fp8) {
  std::vector<float> in = numbers(128);
  in[0] = 1e6f;
  Array<float> from(in), to(std::vector<float>(256));
  ASSERT_EQ(launch(scalar("fp8"), {1}, {128}, 0, from.address, to.address), CUDA_SUCCESS);
  std::vector<float> out = to.values();
  for (size_t i = 0; i < in.size(); i++) {
    ASSERT_EQ(out[2 * i], reference::e4m3.value(reference::e4m3.code<double>(in[i], Mode::nearest, true))) << i;
    ASSERT_EQ(out[2 * i + 1], reference::e5m2.value(reference::e5m2.code<double>(in[i], Mode::nearest, true))) << i;
  }
}

TEST_F(ScalarKernels, CooperativeGroups) {
  std::vector<int> in(96);
  for (size_t i = 0; i < in.size(); i++) in[i] = static_cast<int>(i * i % 31);
  Array<int> from(in), to(std::vector<int>(4 * in.size()));
  ASSERT_EQ(launch(scalar("grouped"), {1}, {96}, 0, from.address, to.address), CUDA_SUCCESS);
  std::vector<int> out = to.values();
  for (size_t i = 0; i < in.size(); i++) {
    int tile = 0, odd = 0, greatest = in[i];
    unsigned same = 0;
    for (size_t k = i / 8 * 8; k < i / 8 * 8 + 8; k++) tile += in[k];
    for (size_t k = i / 32 * 32; k < i / 32 * 32 + 32; k++) {
      if (in[k] & 1) odd += in[k];
      greatest = std::max(greatest, in[k]);
      if ((in[k] & 3) == (in[i] & 3)) same |= 1u << k % 32;
    }
    ASSERT_EQ(out[4 * i], tile) << i;
    ASSERT_EQ(out[4 * i + 1], in[i] & 1 ? odd : -1) << i;
    ASSERT_EQ(out[4 * i + 2], greatest) << i;
    ASSERT_EQ(static_cast<unsigned>(out[4 * i + 3]), same) << i;
  }
}

TEST_F(ScalarKernels, AtomicsOfManyBlocks) {
  constexpr unsigned blocks = 64, threads = 64, all = blocks * threads;
  Array<unsigned> cells({0, 1u << 30, 0, 0, 0, 0, 0});
  Array<float> sums(std::vector<float>{0.f});
  Array<uint64_t> wide(std::vector<uint64_t>{0});
  Array<uint32_t> pairs(std::vector<uint32_t>{0});
  CUresult ended =
      launch(scalar("counters"), {blocks}, {threads}, 0, cells.address, sums.address, wide.address, pairs.address);
  ASSERT_EQ(ended, CUDA_SUCCESS);
  EXPECT_EQ(cells.values(),
            (std::vector<unsigned>{all * (all - 1) / 2, 7, all - 1, 0xffffffff, all % 100, 0, all / 16}));
  EXPECT_EQ(sums.values()[0], static_cast<float>(all));
  EXPECT_EQ(wide.values()[0], uint64_t{all} << 33);
  EXPECT_EQ(pairs.values()[0], 0x64006400u);  // 1024 in both
}

TEST_F(ScalarKernels, Prints) {
  CUfunction prints = scalar("prints");
  testing::internal::CaptureStdout();
  ASSERT_EQ(launch(prints, {1}, {32}, 0, 3), CUDA_SUCCESS);
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "thread 0 of two:  4.50 10000000000 x|3   |\nthread 1 of two:  4.50 10000000000 x|3   |\n");
}

TEST_F(ScalarKernels, Allocates) {
  CUfunction allocates = scalar("allocates");
  for (int again = 0; again < 2; again++) {
    Array<int> out(std::vector<int>(64));
    ASSERT_EQ(launch(allocates, {1}, {64}, 0, out.address), CUDA_SUCCESS);
    std::vector<int> sums = out.values();
    for (int i = 0; i < 64; i++) ASSERT_EQ(sums[static_cast<size_t>(i)], i * 100 + 45);
  }
}

TEST_F(ScalarKernels, CallsThroughPointers) {
  Array<int> out(std::vector<int>(64));
  ASSERT_EQ(launch(scalar("pointers"), {1}, {64}, 0, out.address), CUDA_SUCCESS);
  std::vector<int> values = out.values();
  for (int i = 0; i < 64; i++)
    ASSERT_EQ(values[static_cast<size_t>(i)], (i % 3 == 0 ? 2 * i : i % 3 == 1 ? i * i : -i) + 1);
}

TEST_F(ScalarKernels, DividesIn64Bits) {
  std::vector<int64_t> in;
  std::mt19937_64 random(3);
  for (int i = 0; i < 128; i++) in.push_back(static_cast<int64_t>(random() >> (random() % 60)) | 1);
  Array<int64_t> from(in), to(in);
  ASSERT_EQ(launch(scalar("divides"), {1}, {64}, 0, from.address, to.address), CUDA_SUCCESS);
  std::vector<int64_t> out = to.values();
  __extension__ typedef __int128 Wide;
  for (size_t i = 0; i < 64; i++) {
    int64_t a = in[2 * i], b = in[2 * i + 1];
    ASSERT_EQ(out[2 * i], a / b);
    ASSERT_EQ(out[2 * i + 1],
              static_cast<int64_t>(static_cast<uint64_t>(a % b) + static_cast<uint64_t>(Wide(a) * b >> 64)));
  }
}

TEST_F(ScalarKernels, LibraryFunctions) {
  std::vector<float> in = numbers(64);
  Array<float> from(in);
  Array<double> to(std::vector<double>(6 * 64));
  ASSERT_EQ(launch(scalar("functions"), {1}, {64}, 0, from.address, to.address), CUDA_SUCCESS);
  std::vector<double> out = to.values();
  for (size_t i = 0; i < in.size(); i++) {
    double x = in[i], a = std::fabs(x);
    const double expected[] = {std::exp(x),
                               std::log(static_cast<double>(std::fabs(in[i]) + 0.1f)),
                               std::sin(static_cast<double>(in[i] * 100.f)),
                               std::exp(x),
                               1 / (x * x + 0.5),
                               std::tanh(x) + std::sqrt(a) + std::pow(a, static_cast<double>(1.7f))};
    for (size_t k = 0; k < 6; k++) {
      double allowed = k == 3 || k == 4 ? 1e-14 : 1e-5;
      ASSERT_NEAR(out[6 * i + k], expected[k], allowed * std::max(1.0, std::fabs(expected[k]))) << k << " of " << x;
    }
  }
}

TEST_F(ScalarKernelFaults, Assert) {
  auto code = [] { return launch(scalar("asserts"), {1}, {32}, 0, 7) == CUDA_ERROR_ASSERT ? 0 : 1; };
  EXPECT_EXIT(std::_Exit(code()), testing::ExitedWithCode(0), "threadIdx.x");
}

}  // namespace
