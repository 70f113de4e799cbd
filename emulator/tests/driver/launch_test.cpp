// Limits of launches, attributes of functions, occupancy, contexts, names and versions.
#include <cstdlib>

#include "fixture.h"

namespace {

using namespace emulated;

CUresult launch_shape(CUfunction function, Shape grid, Shape block, unsigned shared, int cooperative = 0,
                      Shape cluster = {}) {
  static const Array<unsigned> values(std::vector<unsigned>(1024, 1));
  CUdeviceptr out = values.address;
  unsigned factor = 1, add = 1;
  void *parameters[] = {&out, &factor, &add};
  CudaLaunchAttribute attributes[2] = {};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attributes[0].value.number = cooperative;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[1].value.dimensions[0] = cluster.x;
  attributes[1].value.dimensions[1] = cluster.y;
  attributes[1].value.dimensions[2] = cluster.z;
  CudaLaunchConfig config{{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared, nullptr, attributes, 2};
  CUresult result = call("cuLaunchKernelEx", static_cast<const CudaLaunchConfig *>(&config), function,
                         static_cast<void **>(parameters), static_cast<void **>(nullptr));
  EXPECT_EQ(call("cuCtxSynchronize"), CUDA_SUCCESS);
  return result;
}

TEST(Limits, Shapes) {
  start();
  CUfunction step = step_function();
  EXPECT_EQ(launch_shape(step, {2}, {1024}, 0), CUDA_SUCCESS);
  EXPECT_EQ(launch_shape(step, {1, 65535}, {1}, 0), CUDA_SUCCESS);
  for (Shape grid : {Shape{1, 65536}, Shape{1, 1, 65536}, Shape{0}, Shape{1, 0}, Shape{0x80000000u}})
    EXPECT_EQ(launch_shape(step, grid, {1}, 0), CUDA_ERROR_INVALID_VALUE);
  for (Shape block : {Shape{1025}, Shape{1, 1025}, Shape{1, 1, 65}, Shape{32, 33}, Shape{0}})
    EXPECT_EQ(launch_shape(step, {1}, block, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST(Limits, SharedMemory) {
  start();
  CUfunction step = kernel(step_ptx(), "step");
  int optin = 0;
  call("cuDeviceGetAttribute", &optin, 97, 0);
  EXPECT_EQ(launch_shape(step, {1}, {1}, 48 * 1024), CUDA_SUCCESS);
  EXPECT_EQ(launch_shape(step, {1}, {1}, 48 * 1024 + 1), CUDA_ERROR_INVALID_VALUE);
  constexpr int most = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  EXPECT_EQ(call("cuFuncSetAttribute", step, int{most}, optin + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuFuncSetAttribute", step, int{most}, optin), CUDA_SUCCESS);
  EXPECT_EQ(launch_shape(step, {1}, {1}, static_cast<unsigned>(optin)), CUDA_SUCCESS);
}

TEST(Limits, Clusters) {
  start();
  CUfunction step = kernel(step_ptx(), "step");
  constexpr CUresult wrong = CUDA_ERROR_INVALID_CLUSTER_SIZE;
  bool has_clusters = capability() >= 90;
  EXPECT_EQ(launch_shape(step, {4}, {1}, 0, 0, {2}), has_clusters ? CUDA_SUCCESS : wrong);
  EXPECT_EQ(launch_shape(step, {5}, {1}, 0, 0, {2}), wrong);
  EXPECT_EQ(launch_shape(step, {16}, {1}, 0, 0, {16}), wrong);
  if (!has_clusters) return;
  EXPECT_EQ(call("cuFuncSetAttribute", step, int{CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED}, 1),
            CUDA_SUCCESS);
  EXPECT_EQ(launch_shape(step, {16}, {1}, 0, 0, {16}), CUDA_SUCCESS);
}

TEST(Limits, CooperativeGridsMustFit) {
  start();
  CUfunction step = step_function();
  int sms = 0, blocks = 0;
  call("cuDeviceGetAttribute", &sms, 16, 0);
  ASSERT_EQ(call("cuOccupancyMaxActiveBlocksPerMultiprocessor", &blocks, step, 1024, size_t{0}), CUDA_SUCCESS);
  int threads = 0;
  call("cuDeviceGetAttribute", &threads, 39, 0);
  EXPECT_EQ(blocks, threads / 1024);
  unsigned fit = static_cast<unsigned>(blocks * sms);
  EXPECT_EQ(launch_shape(step, {fit}, {1024}, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(launch_shape(step, {fit + 1}, {1024}, 0, 1), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

/// As in NVIDIA's occupancy table for 67 registers: 72 are given out a thread, 2304 a warp.
TEST(Occupancy, CountsRegisters) {
  start();
  CUmodule module = nullptr;
  CUfunction heavy = nullptr;
  std::string bytes = read_file(TEST_IMAGES "/mode-size.fatbin");
  if (capability() != 75) GTEST_SKIP() << "the machine code is for sm_75";
  ASSERT_EQ(call("cuModuleLoadData", &module, static_cast<const void *>(bytes.data())), CUDA_SUCCESS);
  ASSERT_EQ(call("cuModuleGetFunction", &heavy, module, "heavy"), CUDA_SUCCESS);
  int blocks = 0;
  call("cuOccupancyMaxActiveBlocksPerMultiprocessor", &blocks, heavy, 128, size_t{0});
  EXPECT_EQ(blocks, 7);  // 65536 / 2304 = 28 warps, of 32
  call("cuOccupancyMaxActiveBlocksPerMultiprocessor", &blocks, heavy, 96, size_t{0});
  EXPECT_EQ(blocks, 7);  // three warps take the registers of four
}

/// The name is that of a board of this capability, or says that no board has it.
TEST(Contexts, DeviceNames) {
  start();
  const std::pair<int, const char *> boards[] = {
      {75, "Tesla T4"},       {80, "A100-SXM4-80GB"}, {86, "A10"},   {87, "Orin"},  {88, "Orin (8.8)"}, {89, "L4"},
      {90, "H100 80GB HBM3"}, {100, "B200"},          {103, "B300"}, {110, "Thor"}, {120, "RTX 5090"},  {121, "GB10"}};
  int devices = 0;
  ASSERT_EQ(call("cuDeviceGetCount", &devices), CUDA_SUCCESS);
  for (int device = 0; device < devices; device++) {
    int major = 0, minor = 0;
    char name[100];
    ASSERT_EQ(call("cuDeviceComputeCapability", &major, &minor, device), CUDA_SUCCESS);
    ASSERT_EQ(call("cuDeviceGetName", static_cast<char *>(name), 100, device), CUDA_SUCCESS);
    std::string expected = "unknown sm_" + std::to_string(major * 10 + minor) + ", limits of sm_121";
    for (const auto &[capability, board] : boards)
      if (capability == major * 10 + minor) expected = board;
    EXPECT_EQ(name, expected + " (emulated)");
  }
}

TEST(Contexts, StackAndDevices) {
  start();
  CUfunction of_primary = step_function();
  CUcontext primary = nullptr, own = nullptr, now = nullptr;
  call("cuCtxGetCurrent", &primary);
  ASSERT_EQ(call("cuCtxCreate_v2", &own, 0u, 1), CUDA_SUCCESS);  // the second device
  CUdevice device = -1;
  call("cuCtxGetDevice", &device);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(launch_shape(of_primary, {1}, {1}, 0), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(call("cuCtxPopCurrent_v2", &now), CUDA_SUCCESS);
  EXPECT_EQ(now, own);
  call("cuCtxGetCurrent", &now);
  EXPECT_EQ(now, primary);
  EXPECT_EQ(call("cuCtxPushCurrent_v2", own), CUDA_SUCCESS);
  EXPECT_EQ(call("cuCtxDestroy_v2", own), CUDA_SUCCESS);
  call("cuCtxGetCurrent", &now);
  EXPECT_EQ(now, primary);
  EXPECT_EQ(call("cuCtxDestroy_v2", own), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(call("cuCtxDestroy_v2", primary), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(call("cuDeviceGet", &device, 99), CUDA_ERROR_INVALID_DEVICE);
}

/// A primary context that nobody has retained since it was reset: current, under the same handle, and of no use.
void expect_inactive(CUcontext primary) {
  CUdeviceptr address = 0;
  CUdevice device = -1;
  CUcontext now = nullptr;
  unsigned flags = 0, version = 0;
  int active = 1;
  EXPECT_EQ(call("cuCtxGetCurrent", &now), CUDA_SUCCESS);
  EXPECT_EQ(now, primary);
  EXPECT_EQ(call("cuDevicePrimaryCtxGetState", 0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  EXPECT_EQ(call("cuMemAlloc_v2", &address, size_t{4}), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(call("cuCtxSynchronize"), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(call("cuCtxGetDevice", &device), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(call("cuCtxGetApiVersion", primary, &version), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(call("cuCtxSetCurrent", primary), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemAlloc_v2", &address, size_t{4}), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

[[noreturn]] void reset_and_retain() {
  start();
  CUcontext primary = nullptr, again = nullptr;
  CUdeviceptr address = 0;
  call("cuCtxGetCurrent", &primary);
  for (int turn = 0; turn < 2; turn++) {
    EXPECT_EQ(call("cuDevicePrimaryCtxReset_v2", 0), CUDA_SUCCESS);
    expect_inactive(primary);
    EXPECT_EQ(call("cuDevicePrimaryCtxRetain", &again, 0), CUDA_SUCCESS);
    EXPECT_EQ(again, primary);
    EXPECT_EQ(call("cuMemAlloc_v2", &address, size_t{4}), CUDA_SUCCESS);
  }
  // A reset takes nobody's reference: each is still to be released, and the last release is a reset.
  int held = 0;
  while (held < 100 && call("cuDevicePrimaryCtxRelease_v2", 0) == CUDA_SUCCESS) held++;
  EXPECT_GE(held, 3);
  EXPECT_LT(held, 100);
  EXPECT_EQ(call("cuDevicePrimaryCtxRelease_v2", 0), CUDA_ERROR_INVALID_CONTEXT);
  expect_inactive(primary);
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST(Contexts, APrimaryOneIsOfNoUseAfterAReset) {
  EXPECT_EXIT(reset_and_retain(), testing::ExitedWithCode(0), "");
}

TEST(Names, VersionsDecide) {
  start();
  auto address_of = [](const char *name, int version, int &status, uint64_t flags = 0) {
    void *function = nullptr;
    EXPECT_EQ(call("cuGetProcAddress_v2", name, &function, version, flags, &status), CUDA_SUCCESS);
    return function;
  };
  int status = -1;
  EXPECT_EQ(address_of("cuMemAlloc", 3020, status), function("cuMemAlloc_v2"));
  EXPECT_EQ(status, 0);
  EXPECT_EQ(address_of("cuMemAlloc", 2000, status), nullptr);
  EXPECT_EQ(status, 2);
  EXPECT_EQ(address_of("cuNothing", 13000, status), nullptr);
  EXPECT_EQ(status, 1);
  EXPECT_EQ(address_of("cuStreamGetCaptureInfo", 11030, status), function("cuStreamGetCaptureInfo_v2"));
  EXPECT_EQ(address_of("cuStreamGetCaptureInfo", 13000, status), function("cuStreamGetCaptureInfo_v3"));
  EXPECT_EQ(address_of("cuGraphInstantiate", 12000, status), function("cuGraphInstantiateWithFlags"));
  EXPECT_EQ(address_of("cuLaunchKernel", 13000, status, 2), function("cuLaunchKernel_ptsz"));
  EXPECT_EQ(address_of("cuMemcpyHtoD", 13000, status, 2), function("cuMemcpyHtoD_v2_ptds"));
  EXPECT_EQ(address_of("cuCtxGetDevice", 13000, status), function("cuCtxGetDevice_v2"));
}

TEST(Names, EveryErrorHasANameAndAText) {
  const char *text = nullptr;
  for (int code : {0, 1, 2, 36, 209, 222, 700, 720, 900, 906, 910, 999}) {
    EXPECT_EQ(call("cuGetErrorName", static_cast<CUresult>(code), &text), CUDA_SUCCESS) << code;
    EXPECT_EQ(call("cuGetErrorString", static_cast<CUresult>(code), &text), CUDA_SUCCESS) << code;
  }
  call("cuGetErrorString", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, &text);
  EXPECT_STREQ(text, "operation would make the legacy stream depend on a capturing blocking stream");
  EXPECT_EQ(call("cuGetErrorName", static_cast<CUresult>(12345), &text), CUDA_ERROR_INVALID_VALUE);
}

/// FA_EMU_FAIL=3 and FA_EMU_DRIVER=12040, in a separate process.
TEST(Settings, FailAndVersion) {
  if (!std::getenv("FA_EMU_FAIL")) GTEST_SKIP() << "run as emulator.driver.settings";
  int version = 0, count = 0, status = 0;
  void *found = nullptr;
  EXPECT_EQ(call("cuInit", 0u), CUDA_SUCCESS);
  EXPECT_EQ(call("cuDriverGetVersion", &version), CUDA_SUCCESS);
  EXPECT_EQ(version, 12040);
  EXPECT_EQ(call("cuDeviceGetCount", &count), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(call("cuDeviceGetCount", &count), CUDA_SUCCESS);
  EXPECT_EQ(call("cuGetProcAddress_v2", "cuCtxCreate", &found, 13000, uint64_t{0}, &status), CUDA_SUCCESS);
  EXPECT_EQ(found, function("cuCtxCreate_v3"));  // version 4 came with 12.5
  start();
  CUmodule module = nullptr;
  std::string newer = step_ptx("9.0"), known = step_ptx("8.4");
  EXPECT_EQ(call("cuModuleLoadData", &module, static_cast<const void *>(newer.c_str())),
            CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_EQ(call("cuModuleLoadData", &module, static_cast<const void *>(known.c_str())), CUDA_SUCCESS);
}

}  // namespace
