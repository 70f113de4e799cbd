#include "driver/export_storage.h"

#include "driver/export_table.h"
#include "driver/state.h"

using namespace fa::emu::driver;

namespace {

using Destroy = void (*)(CUcontext, void *key, void *value);
struct Stored {
  void *value;
  Destroy destroy;
};
using Values = std::map<void *, Stored>;  // by key

std::map<Context *, Values> &storage() {
  static auto *const all = new std::map<Context *, Values>;
  return *all;
}

/// No handle: the current context.
Context &context_of(CUcontext handle) {
  return handle ? object<Context>(handle, CUDA_ERROR_INVALID_CONTEXT) : current();
}

CUresult put(CUcontext handle, void *key, void *value, Destroy destroy) {
  return api("cudart: put into a context", [&] {
    Lock lock(process().mutex);
    bool is_new = storage()[&context_of(handle)].try_emplace(key, Stored{value, destroy}).second;
    require(is_new, "the context has a value of that key");
    return CUDA_SUCCESS;
  });
}

CUresult remove(CUcontext handle, void *key) {
  return api("cudart: remove from a context", [&] {
    Lock lock(process().mutex);
    bool was_there = storage()[&context_of(handle)].erase(key) > 0;
    require(was_there, "the context has no value of that key", CUDA_ERROR_INVALID_HANDLE);
    return CUDA_SUCCESS;
  });
}

/// The runtime asks in order to know whether it has seen a context before: that it has not is expected, so not logged.
CUresult get(void **value, CUcontext handle, void *key) {
  return api("cudart: get from a context", [&] {
    Lock lock(process().mutex);
    require(value != nullptr, "no place for the value");
    *value = nullptr;
    Context *context = handle                    ? find_object<Context>(handle)
                       : context_stack().empty() ? nullptr
                                                 : context_stack().back();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    auto values = storage().find(context);
    if (values == storage().end()) return CUDA_ERROR_INVALID_HANDLE;
    auto found = values->second.find(key);
    if (found == values->second.end()) return CUDA_ERROR_INVALID_HANDLE;
    *value = found->second.value;
    return CUDA_SUCCESS;
  });
}

struct Description {
  static constexpr const char *name = "CONTEXT_LOCAL_STORAGE";
  static constexpr ExportId id = {0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11,
                                  0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93};
  static constexpr size_t words = 4;
  static constexpr bool sized = false;
};
const ExportTable<Description> table({{0, address_of(put)}, {1, address_of(remove)}, {2, address_of(get)}});

}  // namespace

void fa::emu::driver::give_back_storage(Context &context) {
  Values values;
  {
    Lock lock(process().mutex);
    if (auto found = storage().find(&context); found != storage().end()) {
      values = std::move(found->second);
      storage().erase(found);
    }
  }
  for (const auto &[key, stored] : values)
    if (stored.destroy) stored.destroy(handle_of<CUcontext>(&context), key, stored.value);
}
