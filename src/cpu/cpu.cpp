#include "cpu/cpu.h"

#include <new>

#include "core/status.h"
#include "cpu/engine.h"
#include "cpu/features.h"
#include "cpu/pool.h"

namespace fa::cpu {

#define FA_CPU_ISA(isa, computes_in, why_not) \
  namespace isa {                             \
  extern const Kernels kernels;               \
  }
#include "cpu/isas.inc"
#undef FA_CPU_ISA

namespace {

template <const Kernels &kernels>
Engine *create(const Kernel &, const Attention &attention, bool) {
  Engine *engine = new (std::nothrow) CpuEngine(attention, kernels);
  if (engine == nullptr) fail(FA_ERROR_OUT_OF_MEMORY, "no memory for an op of %zu bytes", sizeof(CpuEngine));
  return engine;
}

/// The CPU serves every attention that fa.h describes.
const char *serves_all(const Kernel &, const Attention &, Reason *) {
  return nullptr;
}

[[maybe_unused]] const char *needs_bf16(const Kernel &, const Attention &attention, Reason *) {
  return attention.q_dtype == FA_BF16 && attention.kv_dtype == FA_BF16 ? nullptr : "q, k and v are not all bf16";
}

template <const char *(*lacks)()>
const char *why_not_here(const Kernel &) {
  return lacks();
}

#ifdef FA_NO_BACKWARD
constexpr bool computes_gradients = false;
#else
constexpr bool computes_gradients = true;
#endif

constexpr Kernel list[] = {
#define FA_CPU_ISA(isa, computes_in, why_not) \
  {"cpu." #isa,                               \
   FA_DEVICE_CPU,                             \
   #isa,                                      \
   computes_in,                               \
   computes_gradients ? "cpu." #isa : "",     \
   &why_not_here<lacks_##isa>,                \
   &why_not,                                  \
   &create<isa::kernels>},
#include "cpu/isas.inc"
#undef FA_CPU_ISA
};

}  // namespace

KernelList kernels() {
  return {list, sizeof list / sizeof *list};
}

void shutdown() {
  shutdown_pool();
}

}  // namespace fa::cpu
