#include "cpu/cpu.h"

#include "core/status.h"
#include "cpu/engine.h"
#include "cpu/features.h"
#include "cpu/pool.h"

#include <new>

namespace fa::cpu {

#define FA_CPU_ISA(isa, computes_in)  \
  namespace isa {                     \
  extern const Kernels kernels;       \
  }
#include "cpu/isas.inc"
#undef FA_CPU_ISA

namespace {

template <const Kernels &kernels>
Engine *create(const Attention &attention) {
  Engine *engine = new (std::nothrow) CpuEngine(attention, kernels);
  if (engine == nullptr) fail(FA_ERROR_OUT_OF_MEMORY, "no memory for an attention of %zu bytes", sizeof(CpuEngine));
  return engine;
}

/// The CPU serves every attention that fa.h describes.
const char *nothing_refused(const Attention &) { return nullptr; }

constexpr Kernel list[] = {
#define FA_CPU_ISA(isa, computes_in) \
  {"cpu." #isa, "cpu", #isa, computes_in, &lacks_##isa, &nothing_refused, &create<isa::kernels>},
#include "cpu/isas.inc"
#undef FA_CPU_ISA
};

}  // namespace

KernelList kernels() { return {list, sizeof list / sizeof *list}; }

void shutdown() { shutdown_pool(); }

}  // namespace fa::cpu
