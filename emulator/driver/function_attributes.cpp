// Attributes of functions: the needs of the code, and the settings of programs.
#include "driver/function_attributes.h"

#include <algorithm>

namespace fa::emu::driver {

void get_function_attribute(const Kernel &kernel, int attribute, int *value) {
  require(value != nullptr, "no place for the value");
  const ptx::EntryLimits &entry = kernel.limits();
  const KernelSettings &set = kernel.settings;
  const ptx::Module &module = *kernel.module->ptx;
  uint32_t threads = entry.max_threads[0] * entry.max_threads[1] * entry.max_threads[2];
  if (entry.required_threads[0])
    threads = entry.required_threads[0] * entry.required_threads[1] * entry.required_threads[2];
  const uint32_t *cluster = entry.cluster[0] ? entry.cluster : set.cluster;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = threads ? static_cast<int>(threads) : 1024;
      if (kernel.resources.registers)
        *value = std::min(*value, static_cast<int>(65536 / kernel.resources.registers / 32 * 32));
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(kernel.program->static_shared_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: {
      uint64_t bytes = 0;
      for (const auto &variable : module.variables)
        if (variable.space == ptx::Space::constant) bytes += variable.size;
      *value = static_cast<int>(bytes);
      break;
    }
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = static_cast<int>(kernel.resources.known ? kernel.resources.stack_bytes : kernel.program->local_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = static_cast<int>(kernel.resources.registers);
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: {
      auto target = limits_of(module.target);
      *value = target ? target->capability() : 0;
      break;
    }
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = kernel.module->context->device->limits.capability();
      break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      *value = 0;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = static_cast<int>(set.dynamic_shared_set
                                    ? set.max_dynamic_shared
                                    : 48 * 1024 - std::min(48u * 1024, kernel.program->static_shared_bytes));
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = set.carveout;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      *value = entry.explicit_cluster && !cluster[0];
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      *value = static_cast<int>(cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH]);
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = set.large_clusters;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      *value = set.cluster_policy;
      break;
    default:
      refuse(CUDA_ERROR_INVALID_VALUE, "no such attribute");
  }
}

void set_function_attribute(Kernel &kernel, int attribute, int value) {
  const DeviceLimits &limits = kernel.module->context->device->limits;
  KernelSettings &set = kernel.settings;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
      bool fits = value >= 0 &&
                  static_cast<uint64_t>(value) + kernel.program->static_shared_bytes <= limits.shared_per_block_optin;
      if (!fits)
        refuse(CUDA_ERROR_INVALID_VALUE, std::to_string(value) + " bytes of dynamic and " +
                                             std::to_string(kernel.program->static_shared_bytes) +
                                             " of static shared memory; a block of this device can have " +
                                             std::to_string(limits.shared_per_block_optin));
      set.max_dynamic_shared = static_cast<uint32_t>(value);
      set.dynamic_shared_set = true;
      break;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      require(value >= -1 && value <= 100, "the carveout is -1 or a percentage");
      set.carveout = value;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      require(kernel.limits().cluster[0] == 0, "the kernel was compiled for a cluster", CUDA_ERROR_NOT_PERMITTED);
      require(value >= 0, "a negative extent");
      set.cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = static_cast<uint32_t>(value);
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      set.large_clusters = value != 0;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      require(value >= 0 && value <= 2, "no such policy");
      set.cluster_policy = value;
      break;
    default:
      refuse(CUDA_ERROR_INVALID_VALUE, "an attribute that cannot be set");
  }
}

}  // namespace fa::emu::driver
