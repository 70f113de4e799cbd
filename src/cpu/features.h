// The ISAs that this CPU and its operating system support.
#pragma once

#include <cstdint>

namespace fa::cpu {

/// The words of CPUID on an x86-64, 0 where it has no such leaf, and the states that the operating system keeps.
struct X86Words {
  uint32_t ecx_1;    // leaf 1
  uint32_t ebx_7;    // leaf 7
  uint32_t edx_7;    // leaf 7
  uint32_t eax_7_1;  // leaf 7, subleaf 1
  uint64_t xcr0;     // XGETBV of 0; 0 where it is not enabled
};

/// nullptr when a CPU runs the ISA, else the feature that it lacks.
const char *lacks_avx2(const X86Words &words);
const char *lacks_avx512(const X86Words &words);
const char *lacks_avx512_bf16(const X86Words &words);
const char *lacks_amx_bf16(const X86Words &words);

/// The same of this machine.
#define FA_CPU_ISA(name, ...) const char *lacks_##name();
#include "cpu/isas.inc"
#undef FA_CPU_ISA

}  // namespace fa::cpu
