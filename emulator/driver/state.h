// The objects behind the API's handles, and the process's state. One lock guards all of it: calls are short. Kernels
// and copies run outside of it (queue.h), so nobody may wait for one while holding the lock.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "driver/api.h"
#include "driver/cubin.h"
#include "driver/devices.h"
#include "driver/handled.h"
#include "driver/settings.h"
#include "driver/stream.h"
#include "driver/work.h"
#include "exec/program.h"
#include "memory/device_heap.h"
#include "memory/device_memory.h"
#include "ptx/module.h"

namespace fa::emu::driver {

struct Context;
struct Device;
struct Library;
struct Module;

/// The attributes of cuFuncSetAttribute.
struct KernelSettings {
  uint32_t max_dynamic_shared = 48 * 1024;
  int carveout = -1;
  uint32_t cluster[3] = {0, 0, 0};
  bool large_clusters = false;
  int cluster_policy = 0;
  bool dynamic_shared_set = false;
};

/// A function of a module, decoded when it is first asked for.
struct Kernel : Handled {
  struct Parameter {
    uint32_t offset = 0, bytes = 0;
  };
  Module *module = nullptr;
  ptx::Index function = 0;
  std::string name;
  std::vector<Parameter> parameters;
  std::shared_ptr<const Program> program;
  KernelSettings settings;
  std::set<int> own_attributes;  // that cuFuncSetAttribute gave, over those of its library
  KernelResources resources;

  const ptx::EntryLimits &limits() const;
};

struct Module : Handled {
  Context *context = nullptr;
  std::shared_ptr<const ptx::Module> ptx;
  CubinResources resources;
  std::vector<uint64_t> addresses;  // by ptx::Module::variables
  std::unordered_map<std::string, std::unique_ptr<Kernel>> kernels;
  Library *library = nullptr;
  ~Module();
};

/// Code that belongs to no context; each context that uses it has a module of it.
struct LibraryKernel : Handled {
  Library *library = nullptr;
  std::string name;
  std::map<Device *, std::map<int, int>> attributes;  // a device's, in all of its contexts
};
struct ManagedVariable {
  uint64_t address = 0, bytes = 0;
  bool initialised = false;
};
struct Library : Handled {
  std::vector<uint8_t> image;
  std::map<Context *, Module *> modules;
  std::map<std::string, std::unique_ptr<LibraryKernel>> kernels;
  std::map<std::string, ManagedVariable> managed;
  ~Library();
};

struct Pool : Handled {
  Device *device = nullptr;
  uint64_t used = 0, high = 0, threshold = 0, most = 0;
  bool is_default = false;
};

struct Device {
  int ordinal = 0;
  DeviceLimits limits;
  std::unique_ptr<memory::DeviceMemory> memory;
  std::unique_ptr<memory::DeviceHeap> heap;  // made for the first kernel that calls malloc
  Room room;                                 // for blocks
  std::unique_ptr<Context> primary;
  int primary_users = 0;
  uint32_t primary_flags = 0;
  Pool default_pool;
  Pool *pool = nullptr;  // that cuMemAllocAsync takes from
};

struct Context : Handled {
  Device *device = nullptr;
  std::atomic<CUresult> sticky{CUDA_SUCCESS};  // after a fault every call fails with it
  std::atomic<bool> active{true};              // a primary one: retained, and not reset since
  std::set<std::unique_ptr<Module>> modules;
  Stream legacy;
  std::map<std::thread::id, std::unique_ptr<Stream>> per_thread;
  std::set<std::unique_ptr<Stream>> streams;
  std::set<std::unique_ptr<Event>> events;
  uint64_t id = 0;
  unsigned flags = 0;
  size_t limits[10] = {};
};

/// The properties of an allocation besides its extent.
struct Allocation {
  Device *device = nullptr;
  Context *context = nullptr;
  Pool *pool = nullptr;
  uint64_t bytes = 0;
  uint64_t id = 0;
  unsigned flags = 0;
  memory::RangeKind kind = memory::RangeKind::device;
  bool owned_by_host = false;  // cuMemHostRegister
  bool freed = false;          // cuMemFreeAsync was called
  bool mapped = false;         // by cuMemMap
  // The offsets from an address to that of the same byte on devices, or on the host: registered memory may have two
  // entries.
  int64_t to_device = 0, to_host = 0;
};

struct Process {
  std::recursive_mutex mutex;
  bool initialised = false;
  std::vector<std::unique_ptr<Device>> devices;
  std::set<std::unique_ptr<Context>> contexts;  // made by cuCtxCreate
  std::set<std::unique_ptr<Library>> libraries;
  std::set<std::unique_ptr<Pool>> pools;
  std::map<uint64_t, Allocation> allocations;                 // by their begin
  std::unordered_map<const void *, std::type_index> handles;  // of everything that is alive
  uint64_t launches = 0, ids = 0;
};

Process &process();
using Lock = std::lock_guard<std::recursive_mutex>;

/// A function of the API that gives one value: its name, the pointer for the value, the value's name, and how to get
/// it.
template <class T, class F>
CUresult api_value(const char *name, T *place, const char *what, F value) {
  return api(name, [&] {
    Lock lock(process().mutex);
    if (!place) refuse(CUDA_ERROR_INVALID_VALUE, std::string("no place for the ") + what);
    *place = value();
    return CUDA_SUCCESS;
  });
}

/// The device of an ordinal; refuses others.
Device &device_at(CUdevice ordinal);
/// The calling thread's stack of contexts; the last is current.
std::vector<Context *> &context_stack();
/// The current context; refuses where no context is current, or where it was destroyed, or a fault has ended it.
Context &current();
/// The same, for functions that need none: null where no context is current, or one that has ended or was reset.
Context *current_if_any();
/// Refuses a primary context that nobody has retained, or that was reset since.
void require_active(const Context &context);
/// A new context of the device, alive.
std::unique_ptr<Context> make_context(Device &device);
/// The device's primary context, active or not: its handle is the same for the life of the process.
Context &primary_of(Device &device);
/// Refuses a device that another process has for itself.
void require_free(const Device &device);
/// Ends all that belongs to a context. Nothing of it may be running.
void dismantle(Context &context);
/// Waits until nothing is running; call it without the lock.
void drain(const Context *context = nullptr);

template <class T>
void make_alive(const T *object) {
  process().handles.insert_or_assign(object, typeid(T));
}
template <class T>
void make_dead(const T *object) {
  process().handles.erase(object);
}
/// From a handle to its object, null where no object of this kind is alive.
template <class T, class Handle>
T *find_object(Handle handle) {
  auto found = process().handles.find(handle);
  return found != process().handles.end() && found->second == typeid(T) ? reinterpret_cast<T *>(handle) : nullptr;
}
/// The same; refuses.
template <class T, class Handle>
T &object(Handle handle, CUresult code = CUDA_ERROR_INVALID_HANDLE) {
  T *found = find_object<T>(handle);
  if (!found) refuse(code, "a handle of another kind, or of an object that is gone");
  return *found;
}
template <class Handle, class T>
Handle handle_of(T *object) {
  return reinterpret_cast<Handle>(object);
}
/// Takes an object out of the set that owns it, and ends it.
template <class T>
void erase_owned(std::set<std::unique_ptr<T>> &set, T *object) {
  make_dead(object);
  for (auto at = set.begin(); at != set.end(); ++at)
    if (at->get() == object) {
      set.erase(at);
      return;
    }
}

/// Parses an image and places its variables. Refuses code that cannot run on the device. library: whose code it is, if
/// any.
Module *load_module(Context &context, const void *image, Library *library = nullptr);
/// Null where the module has no such kernel; refuses instructions that the emulator does not know.
Kernel *find_kernel(Module &module, const std::string &name);
void unload(Module *module);
/// The module of a library in a context, loaded when it is first asked for.
Module &module_of(Library &library, Context &context);
/// A kernel from a CUfunction, or from a CUkernel in its place.
Kernel &kernel_of(CUfunction function, Context &context);

/// Refuses a launch that the device would refuse.
void check_launch(Context &context, const KernelWork &work);
/// Runs a kernel to its end; a fault becomes the context's sticky error.
void launch(Context &context, const KernelWork &work, Operation &operation);
/// Launch attributes with an effect here; the others (priorities, caches, domains) have no effect here.
void apply(KernelWork &work, const CudaLaunchAttribute &attribute);
/// A kernel's parameters, packed from cuLaunchKernel's arguments.
std::vector<uint8_t> pack_parameters(const Kernel &kernel, void **parameters, void **extra);
/// Blocks of this shape that one SM holds at once.
uint32_t blocks_per_sm(const DeviceLimits &limits, const Kernel &kernel, const LaunchShape &shape);

}  // namespace fa::emu::driver
