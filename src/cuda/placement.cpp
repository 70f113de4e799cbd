#include "cuda/placement.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "core/fields.h"
#include "core/operations.h"
#include "core/parts.h"
#include "core/status.h"

namespace fa::cuda {
namespace {

/// The driver's attributes of an address; memory_type is 0 for memory that it does not know.
struct Attributes {
  unsigned memory_type = 0;
  int ordinal = -1;
  unsigned managed = 0;
  CUcontext context = nullptr;
};

/// Whether the host can read at an address. The system call fails in any case, as there is no such thing as its first
/// argument, but copies the set of signals before it looks at that: without memory there it is EFAULT. Drivers keep
/// addresses of freed device memory to themselves, without access, and to read there would end the process.
bool is_mapped(const char *data) {
  constexpr uintptr_t set = 8;  // bytes, which never cross a page
  const int kept = errno;
  const bool fault =
      syscall(SYS_rt_sigprocmask, ~0, reinterpret_cast<uintptr_t>(data) / set * set, nullptr, set) != 0 &&
      errno == EFAULT;
  errno = kept;
  return !fault;
}

/// Calls f(name, address of the pointer) for every pointer of a call, until it is false.
template <class Call, class F>
bool each_pointer(Call *call, F f) {
  for (const auto &t : Fields<Call>::tensors)
    if (!f(t.name, &(call->*t.view).data)) return false;
  for (const auto &a : Fields<Call>::arrays) {
    if (a.entries(call->batch) == 0) continue;  // it may be anywhere
    char *data = reinterpret_cast<char *>(const_cast<int32_t *>(call->*a.data));
    if (!f(a.name, &data)) return false;
    call->*a.data = reinterpret_cast<const int32_t *>(data);
  }
  if (!each_part(*call,
                 [&](const PartsField &field, int part, View &view) { return f(field.names.of[part], &view.data); }))
    return false;
  if (call->workspace_size == 0) return true;
  char *workspace = static_cast<char *>(call->workspace);
  const bool all = f("args.workspace", &workspace);
  call->workspace = workspace;
  return all;
}

/// The pointers of a problem one after another, with their names.
class PlacementScan {
 public:
  PlacementScan(const Device &device, bool cpu_fallback)
      : device_(device),
        cpu_fallback_(cpu_fallback),
        device_reads_plain_(device.pageable && (device.host_tables || !cpu_fallback)) {}

  /// Looks at one pointer and keeps its findings; absent pointers are nowhere. False after an error.
  bool look(const char *name, const char *data) {
    if (data == nullptr) return true;
    Attributes is;
    if (!ask(name, data, &is)) return false;
    const bool managed = is.managed != 0;
    const bool on_device = is.memory_type == CU_MEMORYTYPE_DEVICE && !managed;
    if (on_device && is.ordinal != device_.index) {
      fail(FA_ERROR_INVALID_ARGUMENT,
           "%s is memory of device %d, and the op is for device %d (desc.device_index): copy it, or create an op for "
           "that device",
           name, is.ordinal, device_.index);
      return false;
    }
    if (on_device) {
      if (is.context != nullptr && context_ != nullptr && is.context != context_) {
        fail(FA_ERROR_INVALID_ARGUMENT,
             "%s is memory of another CUDA context than %s; expected all memory of a call in one context", name,
             context_name_);
        return false;
      }
      if (is.context != nullptr) context_ = is.context, context_name_ = name;
      if (device_only_ == nullptr) device_only_ = name;
    }
    const bool known = is.memory_type != 0;
    if (!known && !is_mapped(data)) {
      fail(
          FA_ERROR_INVALID_ARGUMENT,
          "%s is %p, which is neither memory of a device nor of the host; expected memory that lives until the call is "
          "done: was it freed?",
          name, static_cast<const void *>(data));
      return false;
    }
    plain_ &= !known;
    if (!known && !device_reads_plain_ && host_only_ == nullptr) host_only_ = name, host_data_ = data;
    has_host_memory_ |= known && is.memory_type != CU_MEMORYTYPE_DEVICE;
    return true;
  }

  bool has_host_memory() const { return has_host_memory_; }

  fa_status place_of_all(MemorySpace *place, CUcontext *context) const {
    *place = host_only_ != nullptr ? MemorySpace::host : plain_ ? MemorySpace::both : MemorySpace::device;
    *context = context_;
    if (host_only_ == nullptr || (cpu_fallback_ && device_only_ == nullptr)) return FA_OK;
    if (device_.pageable) {
      *place = MemorySpace::device;
      return FA_OK;
    }
    if (device_only_ != nullptr)
      return fail(FA_ERROR_INVALID_ARGUMENT,
                  "%s is %p, memory of the host that device %d (%s) does not reach, and %s is memory of the device; "
                  "expected all memory of a call in one place: copy it to the device, or register it with "
                  "cuMemHostRegister",
                  host_only_, static_cast<const void *>(host_data_), device_.index, device_.name, device_only_);
    return fail(FA_ERROR_INVALID_ARGUMENT,
                "%s is %p, memory of the host that device %d (%s) does not reach; expected device, managed or "
                "registered memory: copy it to the device, register it with cuMemHostRegister, or create the op "
                "with FA_DEVICE_AUTO or FA_DEVICE_CPU",
                host_only_, static_cast<const void *>(host_data_), device_.index, device_.name);
  }

 private:
  bool ask(const char *name, const char *data, Attributes *is) const {
    int attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                        CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_CONTEXT};
    void *values[] = {&is->memory_type, &is->ordinal, &is->managed, &is->context};
    const Driver &driver = machine().driver;
    const CUresult result = driver.cuPointerGetAttributes(4, attributes, values, reinterpret_cast<CUdeviceptr>(data));
    if (result == CUDA_SUCCESS) return true;
    failed(driver, "cuPointerGetAttributes", result, "of %s, which is %p", name, static_cast<const void *>(data));
    return false;
  }

  const Device &device_;
  bool cpu_fallback_;
  /// The device may read plain memory of the host. Where it does so by page faults, which move pages to and fro, such
  /// calls are left to the CPU if there is a fallback.
  bool device_reads_plain_;
  CUcontext context_ = nullptr;
  const char *context_name_ = nullptr;  // whose context it is
  const char *device_only_ = nullptr;   // the first that only the device reaches
  const char *host_only_ = nullptr;     // the first that only the host reaches
  const char *host_data_ = nullptr;
  bool plain_ = true;             // the driver knows none of it
  bool has_host_memory_ = false;  // that the driver knows: pinned or registered
};

}  // namespace

template <class Call>
fa_status find_memory_space(const Device &device, Call *call, bool cpu_fallback, MemorySpace *place, CUcontext *context,
                            bool *translate) {
  PlacementScan finder(device, cpu_fallback);
  if (!each_pointer(call, [&](const char *name, char **data) { return finder.look(name, *data); }))
    return last_status();
  *translate = finder.has_host_memory();
  return finder.place_of_all(place, context);
}

template <class Call>
fa_status translate_addresses(Call *call) {
  const Driver &driver = machine().driver;
  const auto move = [&](const char *name, char **data) {
    if (*data == nullptr) return true;
    int attributes[] = {CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
    CUdeviceptr address = 0;
    void *values[] = {&address};
    const CUresult result = driver.cuPointerGetAttributes(1, attributes, values, reinterpret_cast<CUdeviceptr>(*data));
    if (result != CUDA_SUCCESS) failed(driver, "cuPointerGetAttributes", result, "of %s", name);
    if (address != 0) *data = reinterpret_cast<char *>(address);
    return result == CUDA_SUCCESS;
  };
  return each_pointer(call, move) ? FA_OK : last_status();
}

#define FA_INSTANTIATE(op, Op, FIELDS)                                                                        \
  template fa_status find_memory_space(const Device &, Op##Call *, bool, MemorySpace *, CUcontext *, bool *); \
  template fa_status translate_addresses(Op##Call *);
FA_OPERATIONS(FA_INSTANTIATE)
#undef FA_INSTANTIATE

}  // namespace fa::cuda
