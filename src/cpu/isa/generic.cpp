#define FA_ISA generic
#include "cpu/isa/generic.h"

#include "cpu/kernel/kernels.h"
