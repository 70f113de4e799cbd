// AMX with BF16 for f16: a number is the sum of two bf16, which have its 11 bits. Weights keep 16 bits.
#pragma once

#include "cpu/isa/amx_bf16.h"

namespace fa::cpu::FA_ISA {
namespace {

struct Simd : AmxBf16 {
  static constexpr int parts = 2;
};

}  // namespace
}  // namespace fa::cpu::FA_ISA
