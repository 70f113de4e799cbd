#define FA_ISA avx2
#include "cpu/isa/avx2.h"

#include "cpu/kernel/kernels.h"
