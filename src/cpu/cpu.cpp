#include "cpu/cpu.h"

#include "cpu/engine.h"
#include "cpu/features.h"
#include "cpu/pool.h"

namespace fa::cpu {

#define FA_CPU_ISA(isa, ...)       \
  namespace isa {                  \
  extern const IsaKernels kernels; \
  }
#define FA_CPU_PREFILL(isa, ...)        \
  namespace isa {                       \
  extern const Microkernel prefills[2]; \
  }
#include "cpu/isas.inc"
#undef FA_CPU_ISA

namespace {

template <const IsaKernels &kernels>
Engine *create(const KernelEntry &, const Attention &attention, bool) {
  return create_engine(attention, kernels);
}

/// The kernels of `rest` with prefills of another ISA: of few rows, and of any.
struct WithPrefills {
  Microkernel microkernels[4];
  IsaKernels kernels;

  WithPrefills(const Microkernel (&prefills)[2], const IsaKernels &rest)
      : microkernels{rest.microkernels[0], prefills[0], prefills[1], rest.fallback()}, kernels(rest) {
    kernels.microkernels = microkernels;
    kernels.microkernel_count = 4;
  }
};

template <const Microkernel (&prefills)[2], const IsaKernels &rest>
[[maybe_unused]] Engine *create(const KernelEntry &, const Attention &attention, bool) {
  static const WithPrefills both(prefills, rest);
  return create_engine(attention, both.kernels);
}

/// The CPU supports every attention that fa.h describes.
const char *supports_all(const KernelEntry &, const Attention &, MessageBuffer *) {
  return nullptr;
}

[[maybe_unused]] bool all_are(const Attention &attention, fa_dtype dtype) {
  return attention.q_dtype == dtype && attention.kv_dtype == dtype && attention.v_dtype == dtype;
}

[[maybe_unused]] const char *needs_bf16(const KernelEntry &, const Attention &attention, MessageBuffer *) {
  if (!all_are(attention, FA_BF16)) return "q, k and v are not all bf16";
  if (attention.head_dim_rope != 0) return "keys are in two parts";
  return nullptr;
}

[[maybe_unused]] const char *needs_f16(const KernelEntry &, const Attention &attention, MessageBuffer *) {
  if (!all_are(attention, FA_F16)) return "q, k and v are not all f16";
  if (attention.head_dim_rope != 0) return "keys are in two parts";
  if (attention.hadamard_k > 1) return "q and k are rotated";
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
#define FA_CPU_PREFILL(isa, computes_in, unsupported, options, rest) \
  {"cpu." #isa,                                                      \
   FA_DEVICE_CPU,                                                    \
   #isa,                                                             \
   computes_in,                                                      \
   backward_by("cpu." #rest),                                        \
   &unavailable_reason<lacks_##isa>,                                 \
   &unsupported,                                                     \
   &create<isa::prefills, rest::kernels>},
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
