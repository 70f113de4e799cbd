// Modules and libraries: images of every kind, the driver's choice between their entries, and the needs of their code.
#include <cstring>

#include "fixture.h"

namespace {

using namespace emulated;

std::string image(const std::string &name) {
  return read_file(std::string(TEST_IMAGES "/") + name);
}

CUresult load_image(const std::string &bytes, CUmodule *module) {
  return call("cuModuleLoadData", module, static_cast<const void *>(bytes.data()));
}

struct Which {
  int architecture = 0, specific = 0;
  bool operator==(const Which &) const = default;
};

/// The code that runs by the kernel `which` of a function.
Which run(CUfunction function) {
  Array<int> out(std::vector<int>(2, -1));
  EXPECT_EQ(launch(function, {1}, {1}, 0, out.address), CUDA_SUCCESS);
  return {out.values()[0], out.values()[1]};
}

/// Device i of FA_EMU_DEVICE becomes the current one.
void use_device(int ordinal) {
  start();
  CUcontext context = nullptr;
  ASSERT_EQ(call("cuDevicePrimaryCtxRetain", &context, ordinal), CUDA_SUCCESS);
  ASSERT_EQ(call("cuCtxSetCurrent", context), CUDA_SUCCESS);
}

/// Tests that go through the devices leave the first one current.
struct Fatbins : testing::Test {
  void TearDown() override { use_device(0); }
};
struct Libraries : Fatbins {};

int device_count() {
  int count = 0;
  start();
  call("cuDeviceGetCount", &count);
  return count;
}

int capability_of(int device) {
  int major = 0, minor = 0;
  call("cuDeviceComputeCapability", &major, &minor, device);
  return major * 10 + minor;
}

/// As the driver chooses from select.fatbin: machine code of the same major capability, and the PTX it was made from;
/// else the newest PTX.
Which expected(int capability) {
  if (capability < 80) return {750, 0};
  if (capability < 90) return {800, 0};  // sm_86 has separate machine code, whose PTX is not there
  if (capability == 90) return {900, 1};
  return {900, 0};
}

TEST_F(Fatbins, TheDriversChoice) {
  std::string bytes = image("select.fatbin");
  for (int device = 0; device < device_count(); device++) {
    use_device(device);
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    ASSERT_EQ(load_image(bytes, &module), CUDA_SUCCESS) << capability_of(device);
    ASSERT_EQ(call("cuModuleGetFunction", &function, module, "which"), CUDA_SUCCESS);
    EXPECT_EQ(run(function), expected(capability_of(device))) << capability_of(device);
    EXPECT_EQ(call("cuModuleUnload", module), CUDA_SUCCESS);
  }
}

TEST_F(Fatbins, EveryCompression) {
  for (const char *mode : {"none", "size", "speed", "balance"}) {
    std::string bytes = image(std::string("mode-") + mode + ".fatbin");
    use_device(0);
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    ASSERT_EQ(load_image(bytes, &module), CUDA_SUCCESS) << mode;
    ASSERT_EQ(call("cuModuleGetFunction", &function, module, "which"), CUDA_SUCCESS);
    EXPECT_EQ(run(function).architecture, capability_of(0) == 90 ? 900 : 750) << mode;
    call("cuModuleUnload", module);
  }
}

TEST_F(Fatbins, TheWrapperOfCompiledPrograms) {
  use_device(0);
  std::string bytes = image("mode-size.fatbin");
  struct {
    uint32_t magic = 0x466243b1, version = 1;
    const void *container;
    const void *rest = nullptr;
  } wrapper;
  wrapper.container = bytes.data();
  CUmodule module = nullptr;
  EXPECT_EQ(call("cuModuleLoadData", &module, static_cast<const void *>(&wrapper)), CUDA_SUCCESS);
  call("cuModuleUnload", module);
}

TEST_F(Fatbins, CodeForOtherDevices) {
  CUmodule module = nullptr;
  for (int device = 0; device < device_count(); device++) {
    use_device(device);
    CUresult right = capability_of(device) == 90 ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
    EXPECT_EQ(load_image(image("only-90a.fatbin"), &module), right) << capability_of(device);
    EXPECT_EQ(load_image(image("machine-code.fatbin"), &module), CUDA_ERROR_NO_BINARY_FOR_GPU);
    EXPECT_EQ(load_image(image("select.cubin"), &module), CUDA_ERROR_NO_BINARY_FOR_GPU);
  }
}

TEST_F(Fatbins, DamagedOnes) {
  use_device(0);
  for (const char *mode : {"size", "speed"}) {
    std::string bytes = image(std::string("mode-") + mode + ".fatbin");
    // Whatever is changed in the first entry: an error or a module, and no crash.
    for (size_t at = 16; at < 400; at++) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 0x55);
      CUmodule module = nullptr;
      if (load_image(changed, &module) == CUDA_SUCCESS) call("cuModuleUnload", module);
    }
  }
}

TEST_F(Fatbins, RegistersAndStackComeFromTheMachineCode) {
  use_device(0);
  if (capability_of(0) != 75) GTEST_SKIP() << "the machine code is for sm_75";
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_EQ(load_image(image("mode-size.fatbin"), &module), CUDA_SUCCESS);
  ASSERT_EQ(call("cuModuleGetFunction", &function, module, "heavy"), CUDA_SUCCESS);
  int registers = 0, stack = 0, threads = 0, version = 0;
  call("cuFuncGetAttribute", &registers, int{CU_FUNC_ATTRIBUTE_NUM_REGS}, function);
  call("cuFuncGetAttribute", &stack, int{CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES}, function);
  call("cuFuncGetAttribute", &threads, int{CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK}, function);
  call("cuFuncGetAttribute", &version, int{CU_FUNC_ATTRIBUTE_PTX_VERSION}, function);
  EXPECT_EQ(registers, 67);  // these numbers are those of ptxas -v
  EXPECT_EQ(stack, 256);
  EXPECT_EQ(threads, 128);
  EXPECT_EQ(version, 75);
  call("cuModuleUnload", module);
}

int max_shared(CUfunction function) {
  int value = 0;
  EXPECT_EQ(call("cuFuncGetAttribute", &value, int{CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES}, function),
            CUDA_SUCCESS);
  return value;
}

TEST(Modules, Errors) {
  use_device(0);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  EXPECT_EQ(load_image("not PTX", &module), CUDA_ERROR_INVALID_PTX);
  const char *foreign = capability_of(0) == 110 ? "sm_103a" : "sm_110a";
  EXPECT_EQ(load_image(step_ptx("9.0", foreign), &module), CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(load_image(step_ptx("9.9"), &module), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_EQ(load_image(step_ptx("99.9"), &module), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  for (const char *version : {"99999999", "999999999999", "100.0", "9.10", "9.99999999999"})
    EXPECT_EQ(load_image(step_ptx(version), &module), CUDA_ERROR_INVALID_PTX) << version;
  EXPECT_EQ(call("cuModuleLoadData", &module, static_cast<const void *>(nullptr)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuModuleLoad", &module, "no such file"), CUDA_ERROR_FILE_NOT_FOUND);
  module = load(step_ptx());
  EXPECT_EQ(call("cuModuleGetFunction", &function, module, "nothing"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(call("cuModuleUnload", module), CUDA_SUCCESS);
  EXPECT_EQ(call("cuModuleUnload", module), CUDA_ERROR_INVALID_HANDLE);
}

/// A handle that was kept for too long is never taken for a newer one, as soon as memory is used again.
TEST(Modules, HandlesDoNotComeAgainSoon) {
  use_device(0);
  CUmodule first = load(step_ptx());
  CUfunction kept = nullptr;
  ASSERT_EQ(call("cuModuleGetFunction", &kept, first, "step"), CUDA_SUCCESS);
  call("cuModuleUnload", first);
  for (int turn = 0; turn < 20; turn++) {
    CUmodule module = load(step_ptx());
    CUfunction function = nullptr;
    ASSERT_EQ(call("cuModuleGetFunction", &function, module, "step"), CUDA_SUCCESS);
    int value = 0;
    EXPECT_EQ(call("cuFuncGetAttribute", &value, 0, kept), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(call("cuModuleUnload", first), CUDA_ERROR_INVALID_HANDLE);
    call("cuModuleUnload", module);
  }
}

TEST(Modules, TheLogSaysWhy) {
  use_device(0);
  char log[200] = "untouched";
  int options[] = {5, 6};
  void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
  CUmodule module = nullptr;
  std::string broken = step_ptx() + "\n frobnicate";
  EXPECT_EQ(call("cuModuleLoadDataEx", &module, static_cast<const void *>(broken.c_str()), 2u, &options[0],
                 static_cast<void **>(values)),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_NE(std::strstr(log, "frobnicate"), nullptr) << log;
}

TEST(Modules, VariablesAndLists) {
  use_device(0);
  CUmodule module = load(step_ptx());
  CUdeviceptr address = 0;
  size_t bytes = 0;
  ASSERT_EQ(call("cuModuleGetGlobal_v2", &address, &bytes, module, "table"), CUDA_SUCCESS);
  unsigned values[4] = {};
  EXPECT_EQ(bytes, sizeof values);
  call("cuMemcpyDtoH_v2", static_cast<void *>(values), address, bytes);
  EXPECT_EQ(values[3], 40u);
  unsigned count = 0;
  call("cuModuleGetFunctionCount", &count, module);
  EXPECT_EQ(count, 2u);
  call("cuModuleUnload", module);
}

TEST_F(Libraries, KernelsOfSeveralContexts) {
  start();
  std::string bytes = image("select.fatbin");
  CUlibrary library = nullptr;
  call("cuCtxSetCurrent", static_cast<CUcontext>(nullptr));  // libraries need no context
  using Options = int *;
  using Values = void **;
  ASSERT_EQ(call("cuLibraryLoadData", &library, static_cast<const void *>(bytes.data()), Options(), Values(), 0u,
                 Options(), Values(), 0u),
            CUDA_SUCCESS);
  bytes.assign(bytes.size(), '\0');  // the driver has its own copy
  CUkernel which = nullptr;
  unsigned count = 0;
  EXPECT_EQ(call("cuLibraryGetKernel", &which, library, "nothing"), CUDA_ERROR_NOT_FOUND);
  ASSERT_EQ(call("cuLibraryGetKernel", &which, library, "which"), CUDA_SUCCESS);
  EXPECT_EQ(call("cuLibraryGetKernelCount", &count, library), CUDA_SUCCESS);
  EXPECT_EQ(count, 2u);
  for (int device = 0; device < device_count(); device++) {
    use_device(device);
    CUfunction function = nullptr;
    ASSERT_EQ(call("cuKernelGetFunction", &function, which), CUDA_SUCCESS);
    EXPECT_EQ(run(function), expected(capability_of(device)));
    EXPECT_EQ(run(reinterpret_cast<CUfunction>(which)), expected(capability_of(device)));
    EXPECT_EQ(call("cuKernelSetAttribute", int{CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES}, 50000, which, device),
              CUDA_SUCCESS);
    EXPECT_EQ(max_shared(function), 50000);

    // A device's attributes hold in contexts to come, too; a function's own goes before them.
    CUcontext other = nullptr;
    ASSERT_EQ(call("cuCtxCreate_v2", &other, 0u, device), CUDA_SUCCESS);
    ASSERT_EQ(call("cuKernelGetFunction", &function, which), CUDA_SUCCESS);
    EXPECT_EQ(max_shared(function), 50000);
    call("cuFuncSetAttribute", function, int{CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES}, 40000);
    call("cuKernelSetAttribute", int{CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES}, 50001, which, device);
    EXPECT_EQ(max_shared(function), 40000);
    call("cuCtxDestroy_v2", other);
    use_device(device);
    EXPECT_EQ(max_shared(reinterpret_cast<CUfunction>(which)), 50001);
  }
  EXPECT_EQ(call("cuLibraryUnload", library), CUDA_SUCCESS);
  CUfunction function = nullptr;
  EXPECT_EQ(call("cuKernelGetFunction", &function, which), CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace
