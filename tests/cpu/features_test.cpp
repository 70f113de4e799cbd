// The words of CPUID and XGETBV of real CPUs and of emulated ones.
#include "cpu/features.h"

#include <gtest/gtest.h>

#include <string>

namespace {

using namespace fa::cpu;

std::string text(const char *lacks) {
  return lacks != nullptr ? lacks : "";
}

// Words as such CPUs report them.
constexpr X86Words zen3 = {0x7ef8320b, 0x219c97a9, 0x00000010, 0, 0x207};
constexpr X86Words zen5 = {0x7ef8320b, 0xf1bf97a9, 0x10000110, 0x00001c30, 0x2e7};
constexpr X86Words skylake_server = {0x7ffefbff, 0xd39ffffb, 0xbc000400, 0, 0x2ff};
constexpr X86Words sapphire_rapids = {0x7ffafbff, 0xf1bf2ffb, 0x23c14010, 0x00001c30, 0x602e7};
constexpr X86Words nehalem = {0x009ce3bd, 0, 0, 0, 0};

TEST(Features, OfCpus) {
  EXPECT_EQ(text(lacks_avx2(nehalem)), "the CPU or its operating system lacks AVX2");
  EXPECT_EQ(text(lacks_avx512(nehalem)), "the CPU or its operating system lacks AVX-512F");
  EXPECT_EQ(text(lacks_avx2(zen3)), "");
  EXPECT_EQ(text(lacks_avx512(zen3)), "the CPU or its operating system lacks AVX-512F");
  EXPECT_EQ(text(lacks_avx512(skylake_server)), "");
  EXPECT_EQ(text(lacks_avx512_bf16(skylake_server)), "the CPU lacks AVX512-BF16");
  EXPECT_EQ(text(lacks_avx512_bf16(zen5)), "");
  EXPECT_EQ(text(lacks_amx_bf16(zen5)), "the CPU or its operating system lacks AMX");
  EXPECT_EQ(text(lacks_amx_bf16(sapphire_rapids)), "");
}

/// Registers that the operating system does not keep lose their values with the next switch of threads.
TEST(Features, OfOperatingSystems) {
  for (const uint64_t xcr0 : {0x0, 0x1, 0x3, 0x5}) {
    X86Words words = zen5;
    words.xcr0 = xcr0;
    EXPECT_EQ(text(lacks_avx2(words)), "the CPU or its operating system lacks AVX2") << xcr0;
  }
  for (const uint64_t xcr0 : {0x7, 0x27, 0x47, 0x67, 0x87, 0xc7, 0xa7}) {
    X86Words words = zen5;
    words.xcr0 = xcr0;
    EXPECT_EQ(text(lacks_avx2(words)), "") << xcr0;
    EXPECT_EQ(text(lacks_avx512(words)), "the CPU or its operating system lacks AVX-512F") << xcr0;
  }
}

/// Tiles, and their shapes.
TEST(Features, OfOperatingSystemsWithoutTiles) {
  for (const uint64_t xcr0 : {0x2e7, 0x202e7, 0x402e7}) {
    X86Words words = sapphire_rapids;
    words.xcr0 = xcr0;
    EXPECT_EQ(text(lacks_avx512_bf16(words)), "") << xcr0;
    EXPECT_EQ(text(lacks_amx_bf16(words)), "the CPU or its operating system lacks AMX") << xcr0;
  }
}

/// Each need of an ISA, taken away as a virtual machine may.
TEST(Features, EachIsNamed) {
  const auto without = [](uint32_t X86Words::*word, int bit) {
    X86Words words = sapphire_rapids;
    words.*word &= ~(uint32_t{1} << bit);
    return words;
  };
  EXPECT_EQ(text(lacks_avx2(without(&X86Words::ecx_1, 28))), "the CPU or its operating system lacks AVX2");
  EXPECT_EQ(text(lacks_avx2(without(&X86Words::ebx_7, 5))), "the CPU or its operating system lacks AVX2");
  EXPECT_EQ(text(lacks_avx2(without(&X86Words::ecx_1, 12))), "the CPU lacks FMA");
  EXPECT_EQ(text(lacks_avx2(without(&X86Words::ecx_1, 29))), "the CPU lacks F16C");
  EXPECT_EQ(text(lacks_avx512(without(&X86Words::ebx_7, 16))), "the CPU or its operating system lacks AVX-512F");
  EXPECT_EQ(text(lacks_avx512(without(&X86Words::ebx_7, 30))), "the CPU lacks AVX-512BW");
  EXPECT_EQ(text(lacks_avx512(without(&X86Words::ebx_7, 17))), "the CPU lacks AVX-512DQ");
  EXPECT_EQ(text(lacks_avx512(without(&X86Words::ebx_7, 31))), "the CPU lacks AVX-512VL");
  EXPECT_EQ(text(lacks_avx512(without(&X86Words::ecx_1, 12))), "the CPU lacks FMA");
  EXPECT_EQ(text(lacks_avx512_bf16(without(&X86Words::eax_7_1, 5))), "the CPU lacks AVX512-BF16");
  EXPECT_EQ(text(lacks_amx_bf16(without(&X86Words::edx_7, 24))), "the CPU or its operating system lacks AMX");
  EXPECT_EQ(text(lacks_amx_bf16(without(&X86Words::edx_7, 22))), "the CPU lacks AMX-BF16");
  EXPECT_EQ(text(lacks_amx_bf16(without(&X86Words::eax_7_1, 5))), "the CPU lacks AVX512-BF16");
}

#if defined(__x86_64__)
/// The compiler's own table agrees, of this machine.
TEST(Features, AsTheCompilerSees) {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  EXPECT_EQ(lacks_avx2() == nullptr, avx2);
  EXPECT_EQ(lacks_avx512() == nullptr, avx512);
  EXPECT_EQ(lacks_avx512_bf16() == nullptr, avx512 && __builtin_cpu_supports("avx512bf16"));
}
#endif

}  // namespace
