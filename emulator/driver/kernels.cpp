// Modules and their functions.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "driver/called_as.h"
#include "driver/capture.h"
#include "driver/fatbin.h"
#include "driver/function_attributes.h"
#include "driver/state.h"

using namespace fa::emu::driver;

namespace fa::emu::driver {
namespace {

constexpr CUjit_option error_log = 5, error_log_bytes = 6, info_log = 3, info_log_bytes = 4;

}  // namespace

JitLog::JitLog(unsigned count, const CUjit_option *options, void **values) {
  if (!options || !values) return;
  for (unsigned i = 0; i < count; i++) {
    if (options[i] == error_log) text_ = static_cast<char *>(values[i]);
    if (options[i] == error_log_bytes) bytes_ = reinterpret_cast<uintptr_t>(values[i]), bytes_place_ = &values[i];
    if (options[i] == info_log && values[i]) *static_cast<char *>(values[i]) = '\0';
    if (options[i] == info_log_bytes) values[i] = nullptr;
  }
  write("");
}

void JitLog::write(const std::string &reason) {
  if (!text_ || bytes_ == 0) return;
  size_t size = std::min(reason.size(), bytes_ - 1);
  std::memcpy(text_, reason.data(), size);
  text_[size] = '\0';
  if (bytes_place_) *bytes_place_ = reinterpret_cast<void *>(size ? size + 1 : 0);
}

std::vector<char> read_image(const char *path) {
  require(path != nullptr, "no file");
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(CUDA_ERROR_FILE_NOT_FOUND, std::string("no file ") + path);
  std::vector<char> image((std::istreambuf_iterator<char>(file)), {});
  image.push_back('\0');
  return image;
}

void get_global(Module &module, const char *name, CUdeviceptr *address, size_t *bytes) {
  require(name != nullptr, "no name");
  auto found = module.ptx->variable_index.find(name);
  bool placed = found != module.ptx->variable_index.end() && module.addresses[found->second] != 0;
  if (!placed) refuse(CUDA_ERROR_NOT_FOUND, std::string("the module has no variable ") + name);
  if (address) *address = module.addresses[found->second];
  if (bytes) *bytes = module.ptx->variables[found->second].size;
}

std::vector<std::string> kernel_names(const ptx::Module &module) {
  std::vector<std::string> names;
  for (const ptx::Function &function : module.functions)
    if (function.entry && function.defined) names.emplace_back(function.name);
  return names;
}

}  // namespace fa::emu::driver

EMU_API CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options,
                                    void **values) {
  const CalledAs name("cuModuleLoadDataEx");
  return api("cuModuleLoadData", [&] {
    Lock lock(process().mutex);
    require(module != nullptr && image != nullptr, "no image, or no place for the module");
    Context &context = current();
    require_no_capture();
    JitLog log(count, options, values);
    try {
      *module = handle_of<CUmodule>(load_module(context, image));
    } catch (const ApiError &error) {
      log.write(error.reason);
      throw;
    }
    return CUDA_SUCCESS;
  });
}
EMU_API CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  const CalledAs name("cuModuleLoadData");
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}
EMU_API CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) {
  const CalledAs name("cuModuleLoadFatBinary");
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}
EMU_API CUresult cuModuleLoad(CUmodule *module, const char *path) {
  std::vector<char> image;
  CUresult read = api("cuModuleLoad", [&] { return image = read_image(path), CUDA_SUCCESS; });
  return read == CUDA_SUCCESS ? cuModuleLoadDataEx(module, image.data(), 0, nullptr, nullptr) : read;
}

EMU_API CUresult cuModuleUnload(CUmodule handle) {
  return api("cuModuleUnload", [&] {
    Context *context = nullptr;
    {
      Lock lock(process().mutex);
      Module &module = object<Module>(handle);
      require(!module.library, "a library's module ends with the library", CUDA_ERROR_NOT_PERMITTED);
      require_no_capture();
      context = module.context;
    }
    drain(context);
    Lock lock(process().mutex);
    unload(&object<Module>(handle));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuModuleGetLoadingMode(int *mode) {
  return api("cuModuleGetLoadingMode", [&] {
    require(mode != nullptr, "no place for the mode");
    constexpr int lazy = 2;
    *mode = lazy;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  return api("cuModuleGetFunction", [&] {
    Lock lock(process().mutex);
    require(function != nullptr && name != nullptr, "no name, or no place for the function");
    Kernel *kernel = find_kernel(object<Module>(module), name);
    if (!kernel) refuse(CUDA_ERROR_NOT_FOUND, std::string("the module has no kernel ") + name);
    *function = handle_of<CUfunction>(kernel);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule module) {
  return api_value("cuModuleGetFunctionCount", count, "number",
                   [&] { return static_cast<unsigned>(kernel_names(*object<Module>(module).ptx).size()); });
}

EMU_API CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned count, CUmodule handle) {
  return api("cuModuleEnumerateFunctions", [&] {
    Lock lock(process().mutex);
    require(functions != nullptr, "no place for the functions");
    Module &module = object<Module>(handle);
    for (const std::string &name : kernel_names(*module.ptx))
      if (count-- > 0)
        *functions++ = handle_of<CUfunction>(find_kernel(module, name));
      else
        break;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
  return api("cuModuleGetGlobal", [&] {
    Lock lock(process().mutex);
    get_global(object<Module>(module), name, address, bytes);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return api("cuFuncSetAttribute", [&] {
    Lock lock(process().mutex);
    Kernel &kernel = kernel_of(function, current());
    set_function_attribute(kernel, attribute, value);
    kernel.own_attributes.insert(attribute);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  return api("cuFuncGetAttribute", [&] {
    Lock lock(process().mutex);
    get_function_attribute(kernel_of(function, current()), attribute, value);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuFuncSetCacheConfig(CUfunction function, int) {
  return api("cuFuncSetCacheConfig", [&] {
    Lock lock(process().mutex);
    kernel_of(function, current());
    return CUDA_SUCCESS;
  });
}
EMU_API CUresult cuFuncSetSharedMemConfig(CUfunction function, int) {
  const CalledAs name("cuFuncSetSharedMemConfig");
  return cuFuncSetCacheConfig(function, 0);
}

EMU_API CUresult cuFuncGetModule(CUmodule *module, CUfunction function) {
  return api_value("cuFuncGetModule", module, "module",
                   [&] { return handle_of<CUmodule>(kernel_of(function, current()).module); });
}

EMU_API CUresult cuFuncGetName(const char **name, CUfunction function) {
  return api_value("cuFuncGetName", name, "name", [&] { return kernel_of(function, current()).name.c_str(); });
}

EMU_API CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *bytes) {
  return api("cuFuncGetParamInfo", [&] {
    Lock lock(process().mutex);
    const auto &parameters = kernel_of(function, current()).parameters;
    // Programs call this until it fails, which is expected, so not logged.
    if (!offset || index >= parameters.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = parameters[index].offset;
    if (bytes) *bytes = parameters[index].bytes;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuFuncIsLoaded(int *state, CUfunction function) {
  return api("cuFuncIsLoaded", [&] {
    Lock lock(process().mutex);
    require(state != nullptr, "no place for the state");
    kernel_of(function, current());
    *state = 1;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuFuncLoad(CUfunction function) {
  return api("cuFuncLoad", [&] {
    Lock lock(process().mutex);
    kernel_of(function, current());
    return CUDA_SUCCESS;
  });
}
