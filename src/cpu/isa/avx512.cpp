#define FA_ISA avx512
#include "cpu/isa/avx512.h"
#include "cpu/kernel/kernels.h"
