// The kernels of stream_mutant_test.cpp, and two streams of a process to launch them in.
#pragma once

#include <string>
#include <vector>

#include "driver/cuda_structs.h"
#include "mutant.h"

namespace stream_test {

using emulated::Array;
using emulated::call;

struct Kernel {
  const char *name, *body;
};

/// Kernels of a block of threads, with two parameters. %mine and %yours: the thread's word in the memory of each.
constexpr Kernel kernels[] = {
    {"write", "st.global.u32 [%mine], %index; griddepcontrol.launch_dependents;"},
    {"read", "griddepcontrol.wait; ld.global.u32 %r, [%mine]; st.global.u32 [%yours+1024], %r;"},
    // A dependent that does not wait, one that reads before it waits, too, and one that waits, lets the next one start,
    // and writes.
    {"late", "ld.global.u32 %r, [%mine]; st.global.u32 [%yours+1024], %r;"},
    {"early",
     "ld.global.u32 %r, [%mine]; griddepcontrol.wait; ld.global.u32 %r, [%mine]; st.global.u32 [%yours+1024], %r;"},
    {"wait_first", "griddepcontrol.wait; griddepcontrol.launch_dependents; st.global.u32 [%mine], %index;"},
    // One of its warps waits.
    {"barrier",
     "setp.ge.u32 %p, %index, 32; @%p bra waited; griddepcontrol.wait; waited: bar.sync 0; ld.global.u32 %r, [%mine]; "
     "st.global.u32 [%yours+1024], %r;"},
    {"count", "red.global.add.u32 [%words], 1;"},
    // As write, and then a flag; and one that waits for the flag, and then reads.
    {"hand_over",
     "st.global.u32 [%mine], %index; bar.sync 0; setp.eq.u32 %p, %index, 0; @%p st.release.gpu.global.u32 [%other], "
     "1;"},
    {"take",
     "again: ld.acquire.gpu.global.u32 %r, [%other]; setp.eq.u32 %p, %r, 0; @%p bra again; ld.global.u32 %r, [%mine]; "
     "st.global.u32 [%yours+1024], %r;"},
    // A word that each thread stores and loads, and a count of the block in front of it.
    {"scratch",
     "st.global.u32 [%mine+4], %index; ld.global.u32 %r, [%mine+4]; membar.gl; atom.global.add.u32 %r, [%words], 1;"},
};

inline std::string ptx() {
  std::string text = ".version 8.0\n.target sm_90a\n.address_size 64\n";
  for (const Kernel &kernel : kernels)
    text += std::string(".visible .entry ") + kernel.name + R"((.param .u64 first, .param .u64 second) {
  .reg .pred %p; .reg .b32 %index, %r; .reg .b64 %words, %other, %mine, %yours, %bytes;
  ld.param.u64 %words, [first];
  ld.param.u64 %other, [second];
  mov.u32 %index, %tid.x;
  mul.wide.u32 %bytes, %index, 4;
  add.s64 %mine, %words, %bytes;
  add.s64 %yours, %other, %bytes;
)" + kernel.body +
            "\n  ret;\n}\n";
  return text;
}

struct Stream {
  explicit Stream(unsigned flags = CU_STREAM_NON_BLOCKING) { call("cuStreamCreate", &handle, flags); }
  CUstream handle = nullptr;
};

/// The process of a test: two streams, 1024 words that they touch, and as many apart.
struct Setting {
  Setting() {
    emulated::start();
    call("cuModuleLoadData", &module, static_cast<const void *>(ptx().c_str()));
  }
  void launch(const char *name, const Stream &stream, uint64_t first, uint64_t second = 0, bool dependent = false,
              unsigned threads = 32) const {
    CUfunction function = nullptr;
    call("cuModuleGetFunction", &function, module, name);
    void *parameters[] = {&first, &second};
    CudaLaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.number = 1;
    CudaLaunchConfig config{};
    config.grid[0] = config.grid[1] = config.grid[2] = config.block[1] = config.block[2] = 1;
    config.block[0] = threads;
    config.stream = stream.handle;
    config.attributes = &attribute;
    config.attribute_count = dependent;
    call("cuLaunchKernelEx", static_cast<const CudaLaunchConfig *>(&config), function, static_cast<void **>(parameters),
         static_cast<void **>(nullptr));
  }
  void wait_for(const Stream &from, const Stream &to) const {
    CUevent event = nullptr;
    call("cuEventCreate", &event, 0u);
    call("cuEventRecord", event, from.handle);
    call("cuStreamWaitEvent", to.handle, event, 0u);
  }

  CUmodule module = nullptr;
  Stream a, b;
  Array<unsigned> words{std::vector<unsigned>(1024)}, others{std::vector<unsigned>(1024)};
  uint64_t at = words.address, apart = others.address;
};

/// The report on the operations that f enqueues in a setting.
template <class F>
std::string report_of(F f) {
  return emulated::reported([&] {
    emulated::start();
    Setting setting;
    f(setting);
    call("cuCtxSynchronize");
  });
}

}  // namespace stream_test
