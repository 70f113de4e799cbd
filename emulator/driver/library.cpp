// Libraries: code that belongs to no context. Its kernels refer to the functions of a module in each context.
#include <algorithm>
#include <optional>

#include "driver/capture.h"
#include "driver/fatbin.h"
#include "driver/function_attributes.h"
#include "driver/managed.h"
#include "ptx/parser.h"

using namespace fa::emu::driver;

namespace {

/// With a context the code is loaded there at once; without one it is only chosen, for whichever device takes it.
void load_or_choose(Library &library) {
  if (Context *context = current_if_any()) {
    module_of(library, *context);
    return;
  }
  std::optional<ApiError> last;
  for (const auto &device : process().devices) try {
      choose(library.image.data(), device->limits, settings().driver_version);
      return;
    } catch (const ApiError &error) {
      last = error;
    }
  if (last) throw *last;
}

/// The names of a library's kernels, in the first context's or device's code.
std::vector<std::string> names_of(Library &library) {
  if (!library.modules.empty()) return kernel_names(*library.modules.begin()->second->ptx);
  if (Context *context = current_if_any()) return kernel_names(*module_of(library, *context).ptx);
  Chosen chosen = choose(library.image.data(), process().devices[0]->limits, settings().driver_version);
  auto parsed = fa::emu::ptx::parse(std::move(chosen.ptx));
  if (parsed.error) refuse(CUDA_ERROR_INVALID_PTX, parsed.error->what());
  return kernel_names(*parsed.module);
}

LibraryKernel &kernel_named(Library &library, const std::string &name) {
  auto &kernel = library.kernels[name];
  if (!kernel) {
    kernel = std::make_unique<LibraryKernel>(LibraryKernel{{}, &library, name, {}});
    make_alive(kernel.get());
  }
  return *kernel;
}

/// Sets an attribute of a kernel in every context of a device, but where cuFuncSetAttribute has set it.
void set_on_device(LibraryKernel &kernel, Device &device, int attribute, int value) {
  for (const auto &[context, module] : kernel.library->modules) {
    if (!module || context->device != &device) continue;
    Kernel &there = *find_kernel(*module, kernel.name);
    if (!there.own_attributes.count(attribute)) set_function_attribute(there, attribute, value);
  }
  kernel.attributes[&device][attribute] = value;
}

/// The kernel in a device's primary context, or in the current one where that is of the device.
Kernel &kernel_on(CUkernel handle, CUdevice ordinal) {
  Device &device = device_at(ordinal);
  Context *context = context_stack().empty() ? nullptr : context_stack().back();
  if (!context || context->device != &device) context = device.primary.get();
  require(context != nullptr, "the device has no context yet", CUDA_ERROR_INVALID_CONTEXT);
  return kernel_of(reinterpret_cast<CUfunction>(handle), *context);
}

}  // namespace

EMU_API CUresult cuLibraryLoadData(CUlibrary *handle, const void *image, CUjit_option *options, void **values,
                                   unsigned count, const int *, void **, unsigned) {
  return api("cuLibraryLoadData", [&] {
    Lock lock(process().mutex);
    require(handle != nullptr && image != nullptr, "no image, or no place for the library");
    require_no_capture();
    JitLog log(count, options, values);
    auto library = std::make_unique<Library>();
    try {
      library->image = copy_of_image(image);
      load_or_choose(*library);
    } catch (const ApiError &error) {
      log.write(error.reason);
      throw;
    }
    make_alive(library.get());
    *handle = handle_of<CUlibrary>(library.get());
    process().libraries.insert(std::move(library));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *options, void **values,
                                       unsigned count, const int *library_options, void **library_values,
                                       unsigned library_count) {
  std::vector<char> image;
  CUresult read = api("cuLibraryLoadFromFile", [&] { return image = read_image(path), CUDA_SUCCESS; });
  return read != CUDA_SUCCESS ? read
                              : cuLibraryLoadData(library, image.data(), options, values, count, library_options,
                                                  library_values, library_count);
}

EMU_API CUresult cuLibraryUnload(CUlibrary handle) {
  return api("cuLibraryUnload", [&] {
    {
      Lock lock(process().mutex);
      object<Library>(handle);
      require_no_capture();
    }
    drain();
    Lock lock(process().mutex);
    Library &library = object<Library>(handle);
    for (const auto &[context, module] : library.modules)
      if (module) unload(module);
    for (const auto &[name, kernel] : library.kernels) make_dead(kernel.get());
    erase_owned(process().libraries, &library);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary handle, const char *name) {
  return api("cuLibraryGetKernel", [&] {
    Lock lock(process().mutex);
    require(kernel != nullptr && name != nullptr, "no name, or no place for the kernel");
    Library &library = object<Library>(handle);
    auto names = names_of(library);
    if (std::find(names.begin(), names.end(), name) == names.end())
      refuse(CUDA_ERROR_NOT_FOUND, std::string("the library has no kernel ") + name);
    *kernel = handle_of<CUkernel>(&kernel_named(library, name));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary library) {
  return api_value("cuLibraryGetKernelCount", count, "number",
                   [&] { return static_cast<unsigned>(names_of(object<Library>(library)).size()); });
}

EMU_API CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned count, CUlibrary handle) {
  return api("cuLibraryEnumerateKernels", [&] {
    Lock lock(process().mutex);
    require(kernels != nullptr, "no place for the kernels");
    Library &library = object<Library>(handle);
    auto names = names_of(library);
    for (size_t i = 0; i < std::min<size_t>(count, names.size()); i++)
      kernels[i] = handle_of<CUkernel>(&kernel_named(library, names[i]));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
  return api_value("cuLibraryGetModule", module, "module",
                   [&] { return handle_of<CUmodule>(&module_of(object<Library>(library), current())); });
}

EMU_API CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name) {
  return api("cuLibraryGetGlobal", [&] {
    Lock lock(process().mutex);
    get_global(module_of(object<Library>(library), current()), name, address, bytes);
    return CUDA_SUCCESS;
  });
}
EMU_API CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name) {
  return api("cuLibraryGetManaged", [&] {
    Lock lock(process().mutex);
    const ManagedVariable &place = managed_variable(object<Library>(library), name);
    if (address) *address = place.address;
    if (bytes) *bytes = place.bytes;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
  return api("cuKernelGetFunction", [&] {
    Lock lock(process().mutex);
    require(function != nullptr, "no place for the function");
    object<LibraryKernel>(kernel);
    *function = handle_of<CUfunction>(&kernel_of(reinterpret_cast<CUfunction>(kernel), current()));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel) {
  return api_value("cuKernelGetLibrary", library, "library",
                   [&] { return handle_of<CUlibrary>(object<LibraryKernel>(kernel).library); });
}

EMU_API CUresult cuKernelGetName(const char **name, CUkernel kernel) {
  return api_value("cuKernelGetName", name, "name", [&] { return object<LibraryKernel>(kernel).name.c_str(); });
}

EMU_API CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
  return api("cuKernelGetAttribute", [&] {
    Lock lock(process().mutex);
    get_function_attribute(kernel_on(kernel, device), attribute, value);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  return api("cuKernelSetAttribute", [&] {
    Lock lock(process().mutex);
    kernel_on(kernel, device);  // in one context at least: it judges the value
    set_on_device(object<LibraryKernel>(kernel), device_at(device), attribute, value);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuKernelSetCacheConfig(CUkernel kernel, int, CUdevice device) {
  return api("cuKernelSetCacheConfig", [&] {
    Lock lock(process().mutex);
    kernel_on(kernel, device);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes) {
  return api("cuKernelGetParamInfo", [&] {
    Lock lock(process().mutex);
    const auto &parameters = kernel_of(reinterpret_cast<CUfunction>(kernel), current()).parameters;
    // Programs call this until it fails, which is expected, so not logged.
    if (!offset || index >= parameters.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = parameters[index].offset;
    if (bytes) *bytes = parameters[index].bytes;
    return CUDA_SUCCESS;
  });
}
