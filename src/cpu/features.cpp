// __builtin_cpu_supports would say the same, but its table is filled by the compiler's run-time library: zig's says no
// to all.
#include "cpu/features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace fa::cpu {
namespace {

constexpr bool has(uint64_t word, int bit) {
  return (word >> bit & 1) != 0;
}

/// The states of vector registers: XMM and YMM; for AVX-512 masks and ZMM, too; for AMX tiles and their shapes.
constexpr uint64_t ymm_states = 0x6, zmm_states = 0xe6, tile_states = 0x60000;

constexpr bool keeps(const X86Words &words, uint64_t states) {
  return (words.xcr0 & states) == states;
}

#if defined(__x86_64__)

/// The words of this machine, asked for once.
const X86Words &here() {
  static const X86Words words = [] {
    X86Words found = {};
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0) found.ecx_1 = ecx;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) {
      found.ebx_7 = ebx;
      found.edx_7 = edx;
      if (eax >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) found.eax_7_1 = eax;
    }
    constexpr int osxsave = 27;
    if (has(found.ecx_1, osxsave)) {
      unsigned low = 0, high = 0;
      asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
      found.xcr0 = uint64_t{high} << 32 | low;
    }
    return found;
  }();
  return words;
}

/// Asks Linux for the tiles' state, 8 KiB that signal frames and switches of threads then hold, for all threads of the
/// process.
bool permits_tiles() {
#if defined(__linux__)
  constexpr long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, of <asm/prctl.h> since Linux 5.16
  return syscall(SYS_arch_prctl, request, tile_data) == 0;
#else
  return true;
#endif
}

#endif

}  // namespace

const char *lacks_avx2(const X86Words &words) {
  constexpr int fma = 12, avx = 28, f16c = 29, avx2 = 5;
  if (!has(words.ecx_1, avx) || !has(words.ebx_7, avx2) || !keeps(words, ymm_states))
    return "the CPU or its operating system lacks AVX2";
  if (!has(words.ecx_1, fma)) return "the CPU lacks FMA";
  if (!has(words.ecx_1, f16c)) return "the CPU lacks F16C";
  return nullptr;
}

const char *lacks_avx512(const X86Words &words) {
  constexpr int f = 16, dq = 17, bw = 30, vl = 31;
  if (!has(words.ebx_7, f) || !keeps(words, zmm_states)) return "the CPU or its operating system lacks AVX-512F";
  if (!has(words.ebx_7, bw)) return "the CPU lacks AVX-512BW";
  if (!has(words.ebx_7, dq)) return "the CPU lacks AVX-512DQ";
  if (!has(words.ebx_7, vl)) return "the CPU lacks AVX-512VL";
  return lacks_avx2(words);
}

const char *lacks_avx512_bf16(const X86Words &words) {
  constexpr int bf16 = 5;
  if (const char *missing = lacks_avx512(words)) return missing;
  return has(words.eax_7_1, bf16) ? nullptr : "the CPU lacks AVX512-BF16";
}

const char *lacks_amx_bf16(const X86Words &words) {
  constexpr int bf16 = 22, tile = 24;
  if (!has(words.edx_7, tile) || !keeps(words, tile_states)) return "the CPU or its operating system lacks AMX";
  if (!has(words.edx_7, bf16)) return "the CPU lacks AMX-BF16";
  return lacks_avx512_bf16(words);
}

#if defined(__x86_64__)

const char *lacks_avx2() {
  return lacks_avx2(here());
}
const char *lacks_avx512() {
  return lacks_avx512(here());
}
const char *lacks_avx512_bf16() {
  return lacks_avx512_bf16(here());
}
const char *lacks_amx_bf16() {
  if (const char *missing = lacks_amx_bf16(here())) return missing;
  static const bool permitted = permits_tiles();
  return permitted ? nullptr : "the operating system does not permit the tiles of AMX";
}

const char *lacks_amx_bf16x2() {
  return lacks_amx_bf16();
}

#elif defined(__aarch64__)

const char *lacks_neon() {
  return nullptr;
}

#endif

const char *lacks_generic() {
  return nullptr;
}

}  // namespace fa::cpu
