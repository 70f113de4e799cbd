// Which instructions a module may use: those of the .target that it names, as in ptxas.
#pragma once

#include <string>

#include "ptx/module.h"

namespace fa::emu {

/// "sm_90a", or what else would have the instruction, where the module's target has not; empty where it has.
std::string missing_target(const ptx::Opcode &opcode, std::string_view target);

}  // namespace fa::emu
