// NVIDIA's driver as the tool uses it: its functions by the names that the loader knows, found when they are first
// asked for.
#pragma once

#include "error.h"

namespace fa::tool {

/// The driver's function, nullptr where there is none.
void *driver_function(const char *name);

/// What a function of the driver returns: 0 on success. Throws Failure where there is no such function.
template <class... Arguments>
int ask(const char *name, Arguments... arguments) {
  void *function = driver_function(name);
  if (function == nullptr) failure("NVIDIA's driver has no {}", name);
  return reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
}

/// "CUDA_ERROR_OUT_OF_MEMORY".
const char *error_name(int result);

/// A function of the driver that must not fail. Throws Failure where it does.
template <class... Arguments>
void call(const char *name, Arguments... arguments) {
  if (const int result = ask(name, arguments...)) failure("the GPU's driver failed: {}: {}", name, error_name(result));
}

}  // namespace fa::tool
