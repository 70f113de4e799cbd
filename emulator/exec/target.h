// Which instructions a module may use: those of the .target that it names, as in ptxas.
#pragma once

#include <string>

#include "ptx/module.h"

namespace fa::emu {

/// The target that would have the instruction, "sm_90a" say, where the module's target lacks it; else empty.
std::string missing_target(const ptx::Opcode &opcode, std::string_view target);

}  // namespace fa::emu
