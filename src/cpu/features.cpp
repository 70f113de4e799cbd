#include "cpu/features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace fa::cpu {

#if defined(__x86_64__)

namespace {

/// Asked of the CPU itself: clang 14 has no name for it.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

const char *lacks_avx2() {
  if (!__builtin_cpu_supports("avx2")) return "the CPU or its operating system lacks AVX2";
  if (!__builtin_cpu_supports("fma")) return "the CPU lacks FMA";
  if (!has_f16c()) return "the CPU lacks F16C";
  return nullptr;
}

const char *lacks_avx512() {
  if (!__builtin_cpu_supports("avx512f")) return "the CPU or its operating system lacks AVX-512F";
  if (!__builtin_cpu_supports("avx512bw")) return "the CPU lacks AVX-512BW";
  if (!__builtin_cpu_supports("avx512dq")) return "the CPU lacks AVX-512DQ";
  if (!__builtin_cpu_supports("avx512vl")) return "the CPU lacks AVX-512VL";
  return nullptr;
}

const char *lacks_avx512_bf16() {
  if (const char *missing = lacks_avx512()) return missing;
  return __builtin_cpu_supports("avx512bf16") ? nullptr : "the CPU lacks AVX512-BF16";
}

#endif

const char *lacks_neon() {
  return nullptr;
}
const char *lacks_generic() {
  return nullptr;
}

}  // namespace fa::cpu
