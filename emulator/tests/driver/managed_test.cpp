// Managed variables of libraries: one place for all contexts, with an initial value.
#include "fixture.h"

namespace {

using namespace emulated;

CUlibrary library_of(const std::string &variables) {
  const std::string text = ".version 7.0\n.target sm_75\n.address_size 64\n" + variables;
  CUlibrary library = nullptr;
  EXPECT_EQ(call("cuLibraryLoadData", &library, static_cast<const void *>(text.c_str()), static_cast<int *>(nullptr),
                 static_cast<void **>(nullptr), 0u, static_cast<int *>(nullptr), static_cast<void **>(nullptr), 0u),
            CUDA_SUCCESS);
  return library;
}

/// Makes the primary context of device 0 current, or none.
void use_context(bool any) {
  start();
  CUcontext context = nullptr;
  if (any) {
    ASSERT_EQ(call("cuDevicePrimaryCtxRetain", &context, 0), CUDA_SUCCESS);
  }
  ASSERT_EQ(call("cuCtxSetCurrent", context), CUDA_SUCCESS);
}

struct Managed : testing::Test {
  void TearDown() override { use_context(true); }
};

/// The pointer is to a variable that is placed when a context has the code.
TEST_F(Managed, AnInitialValueNamesAnotherVariable) {
  for (bool at_once : {true, false}) {
    use_context(at_once);
    CUlibrary library = library_of(
        ".visible .global .align 4 .u32 ordinary = 7;\n"
        ".visible .global .attribute(.managed) .align 8 .u64 pointer = generic(ordinary);\n"
        ".visible .global .attribute(.managed) .align 4 .u32 number = 5;\n");
    CUdeviceptr ordinary = 0, pointer = 0, number = 0;
    size_t bytes = 0;
    ASSERT_EQ(call("cuLibraryGetManaged", &pointer, &bytes, library, "pointer"), CUDA_SUCCESS);
    ASSERT_EQ(call("cuLibraryGetManaged", &number, &bytes, library, "number"), CUDA_SUCCESS);
    EXPECT_EQ(*reinterpret_cast<unsigned *>(number), 5u);
    *reinterpret_cast<unsigned *>(number) = 6;
    use_context(true);
    ASSERT_EQ(call("cuLibraryGetGlobal", &ordinary, &bytes, library, "ordinary"), CUDA_SUCCESS);
    EXPECT_EQ(*reinterpret_cast<CUdeviceptr *>(pointer), ordinary) << at_once;
    EXPECT_EQ(*reinterpret_cast<unsigned *>(number), 6u);  // initialised once
    EXPECT_EQ(call("cuLibraryUnload", library), CUDA_SUCCESS);
  }
}

/// FA_EMU_MEMORY=64M
TEST_F(Managed, OneThatDoesNotFitIsRefusedEveryTime) {
  use_context(false);
  CUlibrary library = library_of(".visible .global .attribute(.managed) .align 4 .b8 large[1073741824];\n");
  for (int turn = 0; turn < 2; turn++) {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    EXPECT_EQ(call("cuLibraryGetManaged", &address, &bytes, library, "large"), CUDA_ERROR_OUT_OF_MEMORY) << turn;
  }
  EXPECT_EQ(call("cuLibraryUnload", library), CUDA_SUCCESS);
}

}  // namespace
