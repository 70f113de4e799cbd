#include "cpu/cpu.h"

#include "cpu/engine.h"
#include "cpu/features.h"
#include "cpu/pool.h"

namespace fa::cpu {

#define FA_CPU_ISA(isa, ...)       \
  namespace isa {                  \
  extern const IsaKernels kernels; \
  }
#include "cpu/isas.inc"
#undef FA_CPU_ISA

namespace {

template <const IsaKernels &kernels>
Engine *create(const KernelEntry &, const Attention &attention, bool) {
  return create_engine(attention, kernels);
}

/// The CPU supports every attention that fa.h describes.
const char *supports_all(const KernelEntry &, const Attention &, MessageBuffer *) {
  return nullptr;
}

[[maybe_unused]] const char *needs_bf16(const KernelEntry &, const Attention &attention, MessageBuffer *) {
  if (attention.q_dtype != FA_BF16 || attention.kv_dtype != FA_BF16 || attention.v_dtype != FA_BF16)
    return "q, k and v are not all bf16";
  if (attention.head_dim_rope != 0) return "keys are in two parts";
  return nullptr;
}

template <const char *(*lacks)()>
const char *unavailable_reason(const KernelEntry &) {
  return lacks();
}

constexpr BackwardNames backward_by([[maybe_unused]] const char *name) {
#ifdef FA_NO_BACKWARD
  return {};
#else
  return {{name}, 1};
#endif
}

constexpr KernelEntry list[] = {
#define FA_CPU_ISA(isa, computes_in, unsupported, ...)                                                                \
  {"cpu." #isa,  FA_DEVICE_CPU,        #isa, computes_in, backward_by("cpu." #isa), &unavailable_reason<lacks_##isa>, \
   &unsupported, &create<isa::kernels>},
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
