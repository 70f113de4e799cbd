// Best first, take the first whose requirements are met, and keep the reason of every other.
#include "dispatch/table.h"

#include <cstring>
#include <string>

#include "core/environment.h"
#include "core/log.h"
#include "core/status.h"
#include "cpu/cpu.h"
#include "cuda/cuda.h"

namespace fa::dispatch {
namespace {

bool same(const char *a, const char *b) {
  return std::strcmp(a, b) == 0;
}

/// A comma-separated list of one field of all kernels, "cpu.avx2, cpu.generic", consecutive duplicates removed.
std::string list(const char *KernelEntry::*name) {
  std::string names;
  const char *last = "";
  for (size_t i = 0; i < kernel_count(); ++i) {
    const char *next = kernel(i).*name;
    if (same(next, last)) continue;
    if (!names.empty()) names += ", ";
    names += last = next;
  }
  return names;
}

/// The index of the first kernel with this name (or arch), or kernel_count().
size_t find(const char *KernelEntry::*member, const char *value) {
  size_t i = 0;
  while (i < kernel_count() && !same(kernel(i).*member, value)) ++i;
  return i;
}

/// Why a kernel cannot run the attention, whatever the environment says; nullptr when it can.
const char *rejection(const KernelEntry &kernel, const Attention &attention, MessageBuffer *buffer) {
  if (attention.device == FA_DEVICE_CPU && kernel.device != FA_DEVICE_CPU) return "desc.device asks for the CPU";
  if (attention.device == FA_DEVICE_CUDA && kernel.device != FA_DEVICE_CUDA) return "desc.device asks for a GPU";
  // The GPU's engine asks the device that the attention names itself.
  if (kernel.device == FA_DEVICE_CPU)
    if (const char *reason = kernel.unavailable_reason(kernel)) return reason;
  return kernel.unsupported_reason(kernel, attention, buffer);
}

/// The reasons in an error text. Consecutive kernels with the same reason share a line; kernels of a device that the
/// attention does not ask for are omitted.
class Reasons {
 public:
  void add(const KernelEntry &kernel, const char *reason) {
    if (reason == last_) {
      names_ += std::string(", ") + kernel.name;
      return;
    }
    flush();
    names_ = kernel.name;
    last_ = reason;
  }

  std::string text() {
    flush();
    return text_;
  }

 private:
  void flush() {
    if (!names_.empty()) text_ += "; " + names_ + ": " + last_;
    names_.clear();
  }

  std::string text_, names_, last_;
};

bool asked_for(const KernelEntry &kernel, const Attention &attention) {
  return attention.device == FA_DEVICE_AUTO || attention.device == kernel.device;
}

const KernelEntry *forced(const char *name, const Attention &attention) {
  const size_t i = find(&KernelEntry::name, name);
  if (i == kernel_count()) {
    fail(FA_ERROR_UNSUPPORTED, "FA_FORCE_KERNEL is \"%s\": there is no such kernel; there are %s", name,
         list(&KernelEntry::name).c_str());
    return nullptr;
  }
  MessageBuffer buffer;
  if (const char *reason = rejection(kernel(i), attention, &buffer)) {
    fail(FA_ERROR_UNSUPPORTED, "FA_FORCE_KERNEL is \"%s\", which cannot run here: %s", name, reason);
    return nullptr;
  }
  if (verbose_dispatch()) log_message("dispatch: %s chosen: FA_FORCE_KERNEL asks for it", name);
  return &kernel(i);
}

}  // namespace

size_t kernel_count() {
  return cuda::kernels().count + cpu::kernels().count;
}

const KernelEntry &kernel(size_t index) {
  const KernelList first = cuda::kernels();
  return index < first.count ? first.first[index] : cpu::kernels().first[index - first.count];
}

const KernelEntry *choose(const Attention &attention) {
  const bool verbose = verbose_dispatch();
  MessageBuffer buffer;
  if (attention.device != FA_DEVICE_CPU) {
    const char *reason = cuda::why_no_device(attention.device_index, &buffer);
    if (reason && attention.device == FA_DEVICE_CUDA) {
      fail(FA_ERROR_NO_DEVICE, "desc.device is FA_DEVICE_CUDA, but %s; FA_DEVICE_AUTO and FA_DEVICE_CPU run on the CPU",
           reason);
      return nullptr;
    }
    if (reason && verbose) log_message("dispatch: device auto: %s, so the CPU runs it", reason);
  }
  if (const char *name = environment("FA_FORCE_KERNEL")) return forced(name, attention);

  const char *max_arch = environment("FA_MAX_ARCH");
  const size_t newest = max_arch ? find(&KernelEntry::arch, max_arch) : 0;
  if (max_arch && newest == kernel_count()) {
    fail(FA_ERROR_UNSUPPORTED, "FA_MAX_ARCH is \"%s\": no kernel is for that architecture; there are %s", max_arch,
         list(&KernelEntry::arch).c_str());
    return nullptr;
  }

  Reasons reasons;
  for (size_t i = 0; i < kernel_count(); ++i) {
    const bool too_new = i < newest && kernel(i).device == kernel(newest).device;
    const char *reason = too_new ? "FA_MAX_ARCH forbids it" : rejection(kernel(i), attention, &buffer);
    if (verbose)
      log_message("dispatch: %s %s%s", kernel(i).name, reason ? "skipped: " : "chosen", reason ? reason : "");
    if (!reason) return &kernel(i);
    if (asked_for(kernel(i), attention)) reasons.add(kernel(i), reason);
  }
  fail(FA_ERROR_UNSUPPORTED, "no kernel supports this attention%s", reasons.text().c_str());
  return nullptr;
}

bool kernel_forced() {
  return environment("FA_FORCE_KERNEL") != nullptr;
}

const KernelEntry *cpu_fallback(const KernelEntry &chosen, const Attention &attention) {
  if (attention.device != FA_DEVICE_AUTO || chosen.device != FA_DEVICE_CUDA || kernel_forced()) return nullptr;
  if (verbose_dispatch()) log_message("dispatch: device auto: for tensors in memory of the host");
  Attention on_host = attention;
  on_host.device = FA_DEVICE_CPU;
  return choose(on_host);
}

}  // namespace fa::dispatch
