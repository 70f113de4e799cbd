// Libraries belong to the process, resident kernels to a context: both are kept under one lock.
// Engines remember the kernels that they found, so the lock is not on the way of a call.
#include "cuda/module.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "core/environment.h"
#include "core/status.h"
#include "cuda/toolkit.h"

namespace fa::cuda {
namespace {

std::mutex loading;

struct Library {
  const Image *image;
  CUlibrary handle;
  Library *next;
};
Library *libraries = nullptr;

struct Loaded {
  const Image *image;
  unsigned long long context;
  Module module;
  Loaded *next;
};
Loaded *loaded = nullptr;

/// Forgets the loaded kernels when the library is unloaded. In a program that ends calls may still run: they load
/// again. A child of fork may never get the lock.
struct AtUnload {
  ~AtUnload() {
    const std::unique_lock lock(loading, std::try_to_lock);
    if (!lock.owns_lock()) return;
    while (loaded != nullptr) delete std::exchange(loaded, loaded->next);
    while (libraries != nullptr) delete std::exchange(libraries, libraries->next);
  }
} at_unload;

struct Free {
  void operator()(char *p) const { std::free(p); }
};

/// Only machine code runs on a driver that is older than the toolkit: PTX is for it to compile.
fa_status too_new(const char *call, CUresult result, const Image &image) {
  const Driver &driver = machine().driver;
  MessageBuffer why;
  const int version = driver.version, cuda = cuda_version_of(image, &why);
  return failed(
      driver, call, result,
      "the kernel image %s has no machine code for this GPU, and its PTX is of CUDA %d.%d, which the driver, for "
      "CUDA %d.%d, cannot compile: update the driver, or build libfa with FA_ARCHS naming this GPU's "
      "architecture, or with a CUDA toolkit that is no newer than the driver",
      image.name, cuda / 1000, cuda % 1000 / 10, version / 1000, version % 1000 / 10);
}

/// The error of an image that does not load.
fa_status not_loaded(const char *call, CUresult result, const Image &image) {
  if (result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) return too_new(call, result, image);
  return failed(machine().driver, call, result, "in loading the kernel image %s for head dimensions up to %d",
                image.name, image.dim);
}

fa_status load_library(const Image &image, CUlibrary *library) {
  for (const Library *known = libraries; known != nullptr; known = known->next) {
    if (known->image != &image) continue;
    *library = known->handle;
    return FA_OK;
  }
  const Driver &driver = machine().driver;
  std::unique_ptr<char, Free> file;
  if (image.data == nullptr || environment("FA_KERNEL_PATH") != nullptr) {
    file.reset(read_image(image));
    if (file == nullptr) return last_status();
  }
  const void *bytes = file != nullptr ? static_cast<const void *>(file.get()) : image.data;
  CUresult result = driver.cuLibraryLoadData(library, bytes, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result != CUDA_SUCCESS) return not_loaded("cuLibraryLoadData", result, image);
  CUdeviceptr address = 0;
  size_t size = 0;
  result = driver.cuLibraryGetGlobal(&address, &size, *library, image.build_symbol);
  if (result == CUDA_SUCCESS) {
    libraries = new Library{&image, *library, libraries};
    return FA_OK;
  }
  const fa_status status =
      result == CUDA_ERROR_NOT_FOUND
          ? fail(FA_ERROR_NO_DEVICE,
                 "the kernel image %s for head dimensions up to %d belongs to another build of libfa: it has no %s; "
                 "install the images that were built with this library",
                 image.name, image.dim, image.build_symbol)
          : not_loaded("cuLibraryGetGlobal", result, image);
  driver.cuLibraryUnload(*library);
  return status;
}

/// One entry point, made resident in the current context.
fa_status load_kernel(const Image &image, const Device &device, CUlibrary library, kernels::Entry entry,
                      CUkernel *kernel) {
  const Driver &driver = machine().driver;
  CUresult result = driver.cuLibraryGetKernel(kernel, library, kernels::name_of(entry));
  if (result != CUDA_SUCCESS) return not_loaded("cuLibraryGetKernel", result, image);
  result = driver.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                       image.tile_of(entry).shared_bytes, *kernel, device.handle);
  if (result != CUDA_SUCCESS) return not_loaded("cuKernelSetAttribute", result, image);
  if (const int percent = carveout_of(image.tile_of(entry), device); percent > 0)  // a hint, without which it is slower
    driver.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, percent, *kernel, device.handle);
  CUfunction function = nullptr;
  if ((result = driver.cuKernelGetFunction(&function, *kernel)) != CUDA_SUCCESS)
    return not_loaded("cuKernelGetFunction", result, image);
  if (driver.cuFuncLoad != nullptr) {
    result = driver.cuFuncLoad(function);
    return result == CUDA_SUCCESS ? FA_OK : not_loaded("cuFuncLoad", result, image);
  }
  // Drivers before 12.4 load a function when it is got, or at the latest when its registers are asked for.
  int registers = 0;
  result = driver.cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
  return result == CUDA_SUCCESS ? FA_OK : not_loaded("cuFuncGetAttribute", result, image);
}

/// Lets the calling thread load kernels while streams of other threads are captured, which does not affect them.
class RelaxedCaptureMode {
 public:
  RelaxedCaptureMode() { machine().driver.cuThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCaptureMode() { machine().driver.cuThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCaptureMode(const RelaxedCaptureMode &) = delete;
  RelaxedCaptureMode &operator=(const RelaxedCaptureMode &) = delete;

 private:
  int mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

fa_status check_capture(const CUstream *stream) {
  if (stream == nullptr) return FA_OK;
  const Driver &driver = machine().driver;
  int capturing = 0;
  if (const CUresult result = driver.cuStreamIsCapturing(*stream, &capturing); result != CUDA_SUCCESS)
    return failed(driver, "cuStreamIsCapturing", result, "%s", "");
  if (capturing == 0) return FA_OK;
  return fail(FA_ERROR_UNSUPPORTED,
              "args.stream is being captured, and the op's kernels are not loaded in its context, which a capture "
              "forbids: create the op while that context is current, or run it there once before the capture");
}

}  // namespace

int carveout_of(const kernels::TileConfig &tile, const Device &device) {
  constexpr int of_a_block = 1024;  // of the system's own
  const int64_t each = tile.shared_bytes + of_a_block, all = device.shared_per_sm;
  const int64_t blocks = std::min<int64_t>(all / each, std::max(tile.min_blocks_per_sm, 2));
  return blocks >= 2 && 8 * blocks * each > 7 * all ? 100 : 0;
}

fa_status find_module(const Image &image, const Device &device, const Context &context, const CUstream *stream,
                      Module *module) {
  const std::lock_guard lock(loading);
  for (const Loaded *known = loaded; known != nullptr; known = known->next) {
    if (known->context != context.id || known->image != &image) continue;
    *module = known->module;
    return FA_OK;
  }
  if (const fa_status status = check_capture(stream)) return status;
  const RelaxedCaptureMode relaxed;
  CUlibrary library = nullptr;
  if (const fa_status status = load_library(image, &library)) return status;
  Module fresh = {};
  for (int i = 0; i < kernels::entry_count; i++) {
    const auto entry = kernels::Entry(i);
    // Images are taken without room for bwd_fused, in whose place gradients take two passes.
    if (!image.has(entry) || image.tile_of(entry).shared_bytes > device.shared_per_block) continue;
    if (const fa_status status = load_kernel(image, device, library, entry, &fresh.kernels[i])) return status;
  }
  loaded = new Loaded{&image, context.id, fresh, loaded};
  *module = fresh;
  return FA_OK;
}

}  // namespace fa::cuda
