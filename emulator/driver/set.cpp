// Sets: flat and of rows, of 1, 2 and 4 bytes. On device memory even those without a stream return before they are
// done, as on a GPU.
#include "driver/capture.h"
#include "driver/graph.h"
#include "driver/state.h"
#include "driver/submit.h"

using namespace fa::emu::driver;

namespace {

template <class T>
CUresult fill(const char *name, CUdeviceptr address, size_t pitch, T value, size_t width, size_t height,
              CUstream handle, bool synchronous) {
  return api(name, [&] {
    Lock lock(process().mutex);
    Stream &stream = stream_of(handle);
    if (synchronous) {
      require_not_capturing(stream);
      require_no_capture();
    }
    submit(stream, SetWork{address, pitch, value, sizeof(T), width, height});
    return CUDA_SUCCESS;
  });
}

}  // namespace

namespace fa::emu::driver {

SetWork set_work(const CudaMemsetNode &node) {
  return {node.address, node.pitch, node.value, node.element_bytes, node.width, node.height};
}

}  // namespace fa::emu::driver

EMU_API CUresult cuMemsetD8_v2(CUdeviceptr address, unsigned char value, size_t count) {
  return fill("cuMemsetD8", address, 0, value, count, 1, nullptr, true);
}
EMU_API CUresult cuMemsetD16_v2(CUdeviceptr address, unsigned short value, size_t count) {
  return fill("cuMemsetD16", address, 0, value, count, 1, nullptr, true);
}
EMU_API CUresult cuMemsetD32_v2(CUdeviceptr address, unsigned value, size_t count) {
  return fill("cuMemsetD32", address, 0, value, count, 1, nullptr, true);
}
EMU_API CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t count, CUstream stream) {
  return fill("cuMemsetD8Async", address, 0, value, count, 1, stream, false);
}
EMU_API CUresult cuMemsetD16Async(CUdeviceptr address, unsigned short value, size_t count, CUstream stream) {
  return fill("cuMemsetD16Async", address, 0, value, count, 1, stream, false);
}
EMU_API CUresult cuMemsetD32Async(CUdeviceptr address, unsigned value, size_t count, CUstream stream) {
  return fill("cuMemsetD32Async", address, 0, value, count, 1, stream, false);
}
EMU_API CUresult cuMemsetD2D8_v2(CUdeviceptr address, size_t pitch, unsigned char value, size_t width, size_t height) {
  return fill("cuMemsetD2D8", address, pitch, value, width, height, nullptr, true);
}
EMU_API CUresult cuMemsetD2D16_v2(CUdeviceptr address, size_t pitch, unsigned short value, size_t width,
                                  size_t height) {
  return fill("cuMemsetD2D16", address, pitch, value, width, height, nullptr, true);
}
EMU_API CUresult cuMemsetD2D32_v2(CUdeviceptr address, size_t pitch, unsigned value, size_t width, size_t height) {
  return fill("cuMemsetD2D32", address, pitch, value, width, height, nullptr, true);
}
EMU_API CUresult cuMemsetD2D8Async(CUdeviceptr address, size_t pitch, unsigned char value, size_t width, size_t height,
                                   CUstream stream) {
  return fill("cuMemsetD2D8Async", address, pitch, value, width, height, stream, false);
}
EMU_API CUresult cuMemsetD2D16Async(CUdeviceptr address, size_t pitch, unsigned short value, size_t width,
                                    size_t height, CUstream stream) {
  return fill("cuMemsetD2D16Async", address, pitch, value, width, height, stream, false);
}
EMU_API CUresult cuMemsetD2D32Async(CUdeviceptr address, size_t pitch, unsigned value, size_t width, size_t height,
                                    CUstream stream) {
  return fill("cuMemsetD2D32Async", address, pitch, value, width, height, stream, false);
}
