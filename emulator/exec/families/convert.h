// The two halves of cvt between single numbers: convert.cpp has the common ones as vector code, convert_general.cpp all
// others.
#pragma once

#include "exec/decoder.h"

namespace fa::emu {

/// The handler, with detail and target of the instruction set for it; null where there is no such conversion. Widths:
/// bytes of the registers.
Handler general_conversion(Decoder &d, uint32_t to_width, uint32_t source_width);

}  // namespace fa::emu
