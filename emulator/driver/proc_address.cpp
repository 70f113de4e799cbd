// cuGetProcAddress: names and versions to functions, as the driver of the version that FA_EMU_DRIVER sets has them.
#include <dlfcn.h>

#include <string_view>

#include "driver/state.h"

using namespace fa::emu::driver;

namespace {

struct Function {
  std::string_view name;
  int since;
  const char *symbol;
  const char *per_thread;  // the symbol's suffix
};

constexpr Function functions[] = {
#define EMU_FUNCTION(name, since, symbol, per_thread) {#name, since, #symbol, per_thread},
#include "driver/functions.inc"
#undef EMU_FUNCTION
};

enum Status : int { found = 0, no_symbol = 1, version_too_low = 2 };

/// Rows of a name are sorted, newest first.
Status find(std::string_view name, int version, bool per_thread, std::string &symbol) {
  Status status = no_symbol;
  for (const Function &function : functions) {
    if (function.name != name || function.since > settings().driver_version) continue;
    status = version_too_low;
    if (function.since > version) continue;
    symbol = function.symbol;
    if (per_thread) symbol += function.per_thread;
    return found;
  }
  return status;
}

void *own_symbol(const std::string &name) {
  Dl_info self;
  require(dladdr(reinterpret_cast<void *>(&own_symbol), &self) != 0, "the library does not find itself",
          CUDA_ERROR_UNKNOWN);
  void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  void *result = library ? dlsym(library, name.c_str()) : nullptr;
  if (library) dlclose(library);
  return result;
}

}  // namespace

EMU_API CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
  return api(
      "cuGetProcAddress",
      [&] {
        require(name != nullptr && function != nullptr && flags <= 2, "no name, no place, or unknown flags");
        constexpr uint64_t per_thread_default = 2;
        std::string symbol;
        *function = nullptr;
        Status result = find(name, version, flags == per_thread_default, symbol);
        if (status) *status = result;
        // As the API says: success, and no function.
        if (result != found) return CUDA_SUCCESS;
        *function = own_symbol(symbol);
        return CUDA_SUCCESS;
      },
      true);
}

EMU_API CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}
