#define FA_ISA neon
#include "cpu/isa/neon.h"

#include "cpu/kernel/kernels.h"
