// Addresses of functions in initial values, calls through them, and memory of another kernel's malloc.
#include <gtest/gtest.h>

#include "client.h"

namespace {

using emulated::Array;
using emulated::kernel;
using emulated::launch;

CUfunction compiled(const char *name) {
  emulated::start();
  return kernel(emulated::read_file(std::string(TEST_KERNELS "/tables.sm_80.ptx")), name);
}

std::vector<int> numbers(int (*of_thread)(int)) {
  std::vector<int> result(32);
  for (int i = 0; i < 32; i++) result[static_cast<size_t>(i)] = of_thread(i);
  return result;
}

TEST(FunctionAddresses, TablesInConstantAndGlobalMemory) {
  emulated::start();
  Array<int> which(numbers([](int i) { return i % 3; })), out(std::vector<int>(32, -1));
  ASSERT_EQ(launch(compiled("tabled"), {1}, {32}, 0, which.address, out.address), CUDA_SUCCESS);
  EXPECT_EQ(out.values(), numbers([](int i) {
              return i % 3 == 0 ? 100 + i + i + i * 7 : i % 3 == 1 ? 100 : (100 + i) * i + i + 7;
            }));
}

TEST(FunctionAddresses, ByteByByte) {
  emulated::start();
  Array<int> out(std::vector<int>(32, -1));
  ASSERT_EQ(launch(compiled("packed"), {1}, {32}, 0, out.address), CUDA_SUCCESS);
  EXPECT_EQ(out.values(),
            numbers([](int i) { return i % 2 == 0 ? (i - 3) * 1000 + i + 5 + 1 : i * 3 * 1000 + i * 5 + 2; }));
}

TEST(FunctionAddresses, ParametersOfSeveralSizes) {
  emulated::start();
  Array<float> out(std::vector<float>(32, -1));
  ASSERT_EQ(launch(compiled("weighed"), {1}, {32}, 0, out.address), CUDA_SUCCESS);
  for (size_t i = 0; i < 32; i++) EXPECT_EQ(out.values()[i], static_cast<float>(i) + 1.5f);
}

TEST(FunctionAddresses, VirtualFunctions) {
  emulated::start();
  Array<int> which(numbers([](int i) { return i & 1; })), out(std::vector<int>(32, -1));
  ASSERT_EQ(launch(compiled("shaped"), {1}, {32}, 0, which.address, out.address), CUDA_SUCCESS);
  EXPECT_EQ(out.values(), numbers([](int i) { return i & 1 ? i * i * 10 + 4 : 3 * i * i * 10; }));
}

TEST(FunctionAddresses, UnknownNames) {
  emulated::start();
  CUmodule module = nullptr;
  const char *text = ".version 8.0\n.target sm_80\n.address_size 64\n.global .align 8 .u64 table[2] = {0, nothing};\n";
  EXPECT_EQ(emulated::call("cuModuleLoadData", &module, static_cast<const void *>(text)), CUDA_ERROR_INVALID_PTX);
}

/// The pointer leads to a function of other parameters.
TEST(FunctionAddresses, OtherParameters) {
  const std::string text =
      ".version 8.0\n.target sm_80\n.address_size 64\n"
      ".func (.param .b64 r) wide(.param .b64 a, .param .b64 b) { ret; }\n"
      ".func (.param .b32 r) narrow(.param .b32 a) { ret; }\n"
      ".visible .entry k() {\n.reg .b64 %rd<2>; .reg .b32 %r<2>;\nmov.u64 %rd1, wide;\n{\n"
      ".param .b32 given; .param .b32 result;\nst.param.b32 [given], 1;\n"
      "prototype : .callprototype (.param .b32 _) _ (.param .b32 _);\n"
      "call (result), %rd1, (given), prototype;\nld.param.b32 %r1, [result];\n}\nret;\n}\n";
  EXPECT_EXIT(
      std::_Exit(launch(kernel((emulated::start(), text), "k"), {1}, {32}, 0) == CUDA_ERROR_ILLEGAL_INSTRUCTION ? 0
                                                                                                                : 1),
      testing::ExitedWithCode(0), "");
}

TEST(Heap, OneKernelAllocatesAnotherOneFrees) {
  emulated::start();
  Array<CUdeviceptr> places(std::vector<CUdeviceptr>(32));
  ASSERT_EQ(launch(compiled("make"), {1}, {32}, 0, places.address), CUDA_SUCCESS);
  for (CUdeviceptr place : places.values()) EXPECT_NE(place, 0u);
  EXPECT_EQ(launch(compiled("give_back"), {1}, {32}, 0, places.address), CUDA_SUCCESS);
}

TEST(Heap, FreedTwice) {
  emulated::start();
  Array<CUdeviceptr> places(std::vector<CUdeviceptr>(32));
  ASSERT_EQ(launch(compiled("make"), {1}, {32}, 0, places.address), CUDA_SUCCESS);
  ASSERT_EQ(launch(compiled("give_back"), {1}, {32}, 0, places.address), CUDA_SUCCESS);
  EXPECT_EXIT(
      std::_Exit(launch(compiled("give_back"), {1}, {32}, 0, places.address) == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 1),
      testing::ExitedWithCode(0), "");
}

}  // namespace
