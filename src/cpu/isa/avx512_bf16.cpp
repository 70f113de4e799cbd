#define FA_ISA avx512_bf16
#include "cpu/isa/avx512_bf16.h"

#include "cpu/kernel/kernels.h"
