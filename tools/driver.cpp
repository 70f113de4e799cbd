#include "driver.h"

#include <dlfcn.h>

namespace fa::tool {

void *driver_function(const char *name) {
  static void *const library = dlopen("libcuda.so.1", RTLD_NOW);
  return library ? dlsym(library, name) : nullptr;
}

const char *error_name(int result) {
  const char *text = nullptr;
  ask("cuGetErrorName", result, &text);
  return text ? text : "an unknown error";
}

}  // namespace fa::tool
