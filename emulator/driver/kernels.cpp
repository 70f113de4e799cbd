// Modules and kernels: loading, looking up, attributes, launching.
#include <cstring>

#include "driver/state.h"

using namespace fa::emu::driver;

EMU_API CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned, CUjit_option *, void **) {
  return api("cuModuleLoadData", [&] {
    Lock lock(process().mutex);
    require(module != nullptr, "no place for the module");
    *module = handle_of<CUmodule>(load_module(current(), image));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

EMU_API CUresult cuModuleUnload(CUmodule module) {
  return api("cuModuleUnload", [&] {
    Lock lock(process().mutex);
    unload(&object<Module>(module));
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

EMU_API CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
  return api("cuModuleGetGlobal", [&] {
    Lock lock(process().mutex);
    require(name != nullptr, "no name");
    Module &loaded = object<Module>(module);
    auto found = loaded.ptx->variable_index.find(name);
    bool placed = found != loaded.ptx->variable_index.end() && loaded.addresses[found->second] != 0;
    if (!placed) refuse(CUDA_ERROR_NOT_FOUND, std::string("the module has no variable ") + name);
    if (address) *address = loaded.addresses[found->second];
    if (bytes) *bytes = loaded.ptx->variables[found->second].size;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return api("cuFuncSetAttribute", [&] {
    Lock lock(process().mutex);
    Kernel &kernel = object<Kernel>(function);
    const DeviceLimits &limits = kernel.module->context->device->limits;
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return CUDA_SUCCESS;
    require(attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, "an attribute that cannot be set");
    bool fits = value >= 0 &&
                static_cast<uint64_t>(value) + kernel.program->static_shared_bytes <= limits.shared_per_block_optin;
    require(fits, "more shared memory than a block of this device can have");
    kernel.max_dynamic_shared = static_cast<uint32_t>(value);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  return api("cuFuncGetAttribute", [&] {
    Lock lock(process().mutex);
    require(value != nullptr, "no place for the value");
    Kernel &kernel = object<Kernel>(function);
    const auto &entry = kernel.module->ptx->functions[kernel.function].limits;
    uint32_t threads = entry.max_threads[0] * entry.max_threads[1] * entry.max_threads[2];
    switch (attribute) {
      case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = threads ? static_cast<int>(threads) : 1024;
        break;
      case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = static_cast<int>(kernel.program->static_shared_bytes);
        break;
      case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = static_cast<int>(kernel.program->local_bytes);
        break;
      case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = static_cast<int>(kernel.registers);
        break;
      case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = static_cast<int>(kernel.max_dynamic_shared);
        break;
      default:
        *value = 0;
    }
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, CUstream,
                                void **parameters, void **extra) {
  return api("cuLaunchKernel", [&] {
    Lock lock(process().mutex);
    Context &context = current();
    LaunchRequest request;
    request.kernel = &object<Kernel>(function);
    request.shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, {1, 1, 1}, shared};
    const auto &cluster = request.kernel->module->ptx->functions[request.kernel->function].limits.cluster;
    for (int d = 0; d < 3; d++)
      if (cluster[d]) request.shape.cluster[d] = cluster[d];
    request.parameters = pack_parameters(*request.kernel, parameters, extra);
    return launch(context, request);
  });
}
