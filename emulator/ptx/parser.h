// PTX text to Module. Malformed text gives an Error that names line and cause, never a crash.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ptx/module.h"

namespace fa::emu::ptx {

struct Parsed {
  std::unique_ptr<Module> module;  // null exactly when there is an error
  std::optional<Error> error;
};

/// Parses a whole module. The meaning of instructions is not looked at: an opcode unknown to the emulator parses.
Parsed parse(std::string text);

}  // namespace fa::emu::ptx
