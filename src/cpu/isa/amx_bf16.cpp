#define FA_ISA amx_bf16
#include "cpu/isa/amx_bf16.h"

#include "cpu/kernel/kernels.h"
