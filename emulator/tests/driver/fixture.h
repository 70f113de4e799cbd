// Shared by the tests of the driver: kernels as text, handles that end themselves, and numbers of the API.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "../client.h"
#include "driver/cuda_structs.h"

namespace emulated {

/// out[i] = out[i] * factor + add, for a block of any size; named "step". Version and target may be others.
inline std::string step_ptx(const std::string &version = "7.0", const std::string &target = "sm_75") {
  return ".version " + version + "\n.target " + target + "\n.address_size 64\n" + R"(
.global .align 4 .u32 table[4] = {10, 20, 30, 40};
.visible .entry step(.param .u64 out, .param .u32 factor, .param .u32 add)
{
  .reg .b64 %rd<4>;
  .reg .b32 %r<8>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [factor];
  ld.param.u32 %r2, [add];
  mov.u32 %r3, %tid.x;
  mul.wide.u32 %rd2, %r3, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r4, [%rd3];
  mad.lo.s32 %r5, %r4, %r1, %r2;
  st.global.u32 [%rd3], %r5;
  ret;
}
.visible .entry other(.param .u64 out) { ret; }
)";
}

/// Whether the emulator varies its order (FA_EMU_SEED).
inline bool is_varied() {
  const char *seed = std::getenv("FA_EMU_SEED");
  return seed && std::atoi(seed) != 0;
}

inline CUmodule load(const std::string &ptx) {
  CUmodule module = nullptr;
  EXPECT_EQ(call("cuModuleLoadData", &module, static_cast<const void *>(ptx.c_str())), CUDA_SUCCESS);
  return module;
}

inline CUfunction step_function() {
  static const CUfunction function = kernel(step_ptx(), "step");
  return function;
}

/// Enqueues step on n values.
inline CUresult step(CUstream stream, CUdeviceptr out, unsigned n, unsigned factor, unsigned add) {
  void *parameters[] = {&out, &factor, &add};
  return call("cuLaunchKernel", step_function(), 1u, 1u, 1u, n, 1u, 1u, 0u, stream, static_cast<void **>(parameters),
              static_cast<void **>(nullptr));
}

struct StreamHandle {
  explicit StreamHandle(unsigned flags = CU_STREAM_NON_BLOCKING) {
    start();
    EXPECT_EQ(call("cuStreamCreate", &handle, flags), CUDA_SUCCESS);
  }
  ~StreamHandle() { call("cuStreamDestroy_v2", handle); }
  StreamHandle(const StreamHandle &) = delete;
  StreamHandle &operator=(const StreamHandle &) = delete;
  operator CUstream() const { return handle; }
  CUstream handle = nullptr;
};

struct EventHandle {
  explicit EventHandle(unsigned flags = 0) {
    start();
    EXPECT_EQ(call("cuEventCreate", &handle, flags), CUDA_SUCCESS);
  }
  ~EventHandle() { call("cuEventDestroy_v2", handle); }
  EventHandle(const EventHandle &) = delete;
  EventHandle &operator=(const EventHandle &) = delete;
  operator CUevent() const { return handle; }
  CUevent handle = nullptr;
};

}  // namespace emulated
