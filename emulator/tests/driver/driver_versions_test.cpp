// Features that drivers have since some version of CUDA 12, run as several drivers (FA_EMU_DRIVER).
#include "fixture.h"

namespace {

using namespace emulated;

int driver_version() {
  int version = 0;
  EXPECT_EQ(call("cuDriverGetVersion", &version), CUDA_SUCCESS);
  return version;
}

/// select.fatbin has machine code for SM 80, compressed with zstd.
TEST(DriverVersions, ZstdSince124) {
  start();
  CUmodule module = nullptr;
  std::string bytes = read_file(TEST_IMAGES "/select.fatbin");
  EXPECT_EQ(call("cuModuleLoadData", &module, static_cast<const void *>(bytes.data())),
            driver_version() < 12040 ? CUDA_ERROR_INVALID_IMAGE : CUDA_SUCCESS);
}

TEST(DriverVersions, ProgrammaticDependenciesInCapturesSince123) {
  CUfunction function = kernel(step_ptx("6.5"), "step");
  StreamHandle stream;
  Array<unsigned> values({1, 2});
  CUdeviceptr out = values.address;
  unsigned factor = 2, add = 1;
  void *parameters[] = {&out, &factor, &add};
  CudaLaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.number = 1;
  CudaLaunchConfig config = {{1, 1, 1}, {2, 1, 1}, 0, stream, &attribute, 1};
  auto launch = [&] {
    return call("cuLaunchKernelEx", static_cast<const CudaLaunchConfig *>(&config), function,
                static_cast<void **>(parameters), static_cast<void **>(nullptr));
  };
  EXPECT_EQ(launch(), CUDA_SUCCESS) << "outside captures";
  CUgraph graph = nullptr;
  ASSERT_EQ(call("cuStreamBeginCapture_v2", stream.handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(launch(), driver_version() < 12030 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS);
  call("cuStreamEndCapture", stream.handle, &graph);
  if (graph != nullptr) call("cuGraphDestroy", graph);
}

}  // namespace
