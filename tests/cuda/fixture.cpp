#include "cuda/fixture.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace cuda_test {

int device_count() {
  int count = 0;
  EXPECT_EQ(call("cuInit", 0u), CUDA_SUCCESS);
  EXPECT_EQ(call("cuDeviceGetCount", &count), CUDA_SUCCESS);
  return count;
}

bool driver_is_loaded() {
  void *const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

bool is_emulated() {
  static const bool result = [] {
    enum { none, emulated, other };
    const auto driver_of = [](int flags) -> int {
      void *const driver = dlopen("libcuda.so.1", flags);
      return driver == nullptr ? none : dlsym(driver, "fa_emu_version") != nullptr ? emulated : other;
    };
    const int found =
        driver_is_loaded() ? driver_of(RTLD_LAZY | RTLD_NOLOAD) : in_child({}, [&] { return driver_of(RTLD_LAZY); });
    if (found == none) throw std::runtime_error("there is no libcuda.so.1");
    if (found == other && std::getenv("FA_EMU_DEVICE") != nullptr)
      throw std::runtime_error("FA_EMU_DEVICE is set, and libcuda.so.1 is no emulator");
    return found == emulated;
  }();
  return result;
}

bool can_be(const std::string &device) {
  if (is_emulated()) return true;
  static const int own = in_child({}, [] { return call("cuInit", 0u) == CUDA_SUCCESS ? emulated::capability() : 0; });
  return std::stoi(device.substr(std::strlen("sm_"))) == own;
}

InContext::InContext(int device, Kind kind) : device_(device), kind_(kind) {
  EXPECT_EQ(call("cuInit", 0u), CUDA_SUCCESS);
  if (kind == primary) {
    EXPECT_EQ(call("cuDevicePrimaryCtxRetain", &handle, device), CUDA_SUCCESS);
    EXPECT_EQ(call("cuCtxPushCurrent_v2", handle), CUDA_SUCCESS);
  } else {
    EXPECT_EQ(call("cuCtxCreate_v2", &handle, 0u, device), CUDA_SUCCESS);
  }
}

InContext::~InContext() {
  end();
}

void InContext::end() {
  if (handle == nullptr) return;
  if (kind_ == own) {
    call("cuCtxDestroy_v2", handle);
  } else {
    CUcontext ignored = nullptr;
    call("cuCtxPopCurrent_v2", &ignored);
    call("cuDevicePrimaryCtxRelease_v2", device_);
  }
  handle = nullptr;
}

Call::Call(const Case &c, Where where) : instance(c), where_(where) {
  args = instance.args;
#define FA_MOVE(name, ...) move(instance.name, &args.name);
  FA_FORWARD_FIELDS(FA_MOVE, FA_MOVE, FA_NOTHING)
#undef FA_MOVE
}

Call::~Call() {
  for (const auto &[from, address] : moved_) {
    if (where_ == Where::registered) continue;
    if (where_ == Where::pinned) {
      call("cuMemFreeHost", address);
    } else {
      call("cuMemFree_v2", reinterpret_cast<CUdeviceptr>(address));
    }
  }
  for (const auto &[address, bytes] : registered_) {
    call("cuMemHostUnregister", address);
    munmap(address, bytes);
  }
}

void *Call::place(size_t bytes, Where where) {
  CUdeviceptr address = 0;
  void *pinned = nullptr;
  if (where == Where::registered) {
    void *const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(mapped, MAP_FAILED);
    EXPECT_EQ(call("cuMemHostRegister_v2", mapped, bytes, 0u), CUDA_SUCCESS);
    registered_[mapped] = bytes;
    return mapped;
  }
  const CUresult result = where == Where::device    ? call("cuMemAlloc_v2", &address, bytes)
                          : where == Where::managed ? call("cuMemAllocManaged", &address, bytes, 1u)
                                                    : call("cuMemAllocHost_v2", &pinned, bytes);
  EXPECT_EQ(result, CUDA_SUCCESS);
  return where == Where::pinned ? pinned : reinterpret_cast<void *>(address);
}

void Call::copy_in(void *to, const reference::Tensor &tensor) {
  const std::vector<char> bytes = tensor.bytes();
  EXPECT_EQ(
      call("cuMemcpy", reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(bytes.data()), bytes.size()),
      CUDA_SUCCESS);
}

void Call::move(const reference::Tensor &tensor, fa_tensor *view) {
  if (where_ == Where::host || !tensor || view->data == nullptr) return;
  view->data = moved_[tensor.view().data] = place(tensor.bytes().size(), where_);
  copy_in(view->data, tensor);
}

void Call::move(const reference::GuardedInts &array, const int32_t **pointer) {
  if (where_ == Where::host || array.size() == 0) return;
  *pointer = static_cast<int32_t *>(moved_[array.data()] = place(array.size() * sizeof(int32_t), where_));
  update(array);
}

void Call::update(const reference::GuardedInts &array) {
  EXPECT_EQ(call("cuMemcpy", reinterpret_cast<CUdeviceptr>(moved_.at(array.data())),
                 reinterpret_cast<CUdeviceptr>(array.data()), array.size() * sizeof(int32_t)),
            CUDA_SUCCESS);
}

std::string Call::failure() {
  if (where_ != Where::host) {
    if (const CUresult result = call("cuCtxSynchronize")) return "the GPU says " + std::to_string(result);
    for (const reference::Tensor *tensor : {&instance.out, &instance.lse}) {
      if (!*tensor) continue;
      const size_t bytes = tensor->bytes().size();
      if (call("cuMemcpy", reinterpret_cast<CUdeviceptr>(tensor->view().data),
               reinterpret_cast<CUdeviceptr>(address_of(*tensor)), bytes) != CUDA_SUCCESS)
        return "the outputs cannot be copied";
    }
  }
  return reference::compare(instance, reference::Expected(instance));
}

fa_desc desc_of(const Case &c, fa_device device, int32_t index) {
  fa_desc desc = Instance(c).desc;
  desc.device = device;
  desc.device_index = index;
  return desc;
}

std::string run(const Case &c, std::string *log) {
  const InContext in;
  Call own(c);
  const Op op(desc_of(c));
  if (op.status != FA_OK) return fa_last_error();
  Log said;
  if (fa_forward(op.op, &own.args) != FA_OK) return fa_last_error();
  *log = said.text;
  return own.failure();
}

std::string arch_of(const Op &op) {
  const std::string name = op.kernel();  // cuda.sm_90a.wgmma
  const size_t begin = name.find('.') + 1;
  return name.substr(begin, name.find('.', begin) - begin);
}

bool is_built(const std::string &name) {
  for (int32_t i = 0; i < fa_kernel_count(); ++i) {
    fa_kernel info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(fa_kernel_info(i, &info), FA_OK);
    if (name == info.name || name == info.arch) return true;
  }
  return false;
}

Case small_case() {
  Case c;
  c.b = 2, c.sq = 5, c.sk = 90, c.hq = 4, c.hkv = 2, c.d = 16, c.mask = FA_MASK_CAUSAL;
  return c;
}

Case split_case(int32_t n) {
  Case c = small_case();
  c.splits = n;
  return c;
}

std::string last_error_lacks(const std::vector<std::string> &words) {
  const std::string text = fa_last_error();
  for (const std::string &word : words)
    if (text.find(word) == std::string::npos) return "\"" + word + "\" is not in \"" + text + "\"";
  return "";
}

}  // namespace cuda_test
