// The lines of archs.inc as constants. Compiled by the host's compiler and by nvcc alike.
#pragma once

namespace fa::kernels {

/// The hardware of an architecture beyond the tensor cores for f16, which all have.
enum Hardware : unsigned {
  nothing = 0,
  cp_async = 1,    // copies from global to shared memory that do not wait
  bf16_mma = 2,    // mma.sync of bf16, and of f16 with 16 columns of k
  fp8_mma = 4,     // mma.sync of e4m3 and e5m2
  tma = 8,         // cp.async.bulk with tensor maps, mbarrier, clusters
  wg_mma = 16,     // wgmma: products of four warps together
  tmem_mma = 32,   // tcgen05: the fifth generation's mma, and its memory
  pdl = 64,        // griddepcontrol
  tmem_max = 128,  // tcgen05.ld.red: the largest of the columns that are loaded
};

/// Where code runs that was built for an architecture, besides on itself.
enum class CodeScope { onward, family, itself };

/// A line of archs.inc.
struct Arch {
  const char *name;  // "sm_90a"
  int number;        // 90
  int shared_bytes;  // dynamic shared memory that a block may take
  CodeScope scope;
  unsigned hardware;  // Hardware

  constexpr bool has(Hardware what) const { return (hardware & what) != 0; }
};

inline constexpr Arch archs[] = {
#define FA_ARCH(number, suffix, code, built, shared, scope, hardware) \
  {"sm_" #number #suffix, number, (shared) << 10, CodeScope::scope, hardware},
#include "archs.inc"
#undef FA_ARCH
};

/// The architecture of a number, 80; a number without a line in archs.inc does not compile.
consteval Arch arch_of(int number) {
  const Arch *arch = archs;
  while (arch->number != number) ++arch;
  return *arch;
}

}  // namespace fa::kernels
