// Values of special registers.
#pragma once

#include <cstdint>

#include "exec/warp.h"

namespace fa::emu {

/// Its position in ptx::special_register_names, by name without the percent sign.
ptx::Index special_number(std::string_view name);

/// Whether its value changes while a warp runs (clocks), so that it is read every time.
bool is_clock(ptx::Index special);
bool is_wide(ptx::Index special);
uint64_t read_clock(ptx::Index special);

/// Fills the warp bank: special registers and addresses of shared variables.
void fill_warp_rows(const Warp &warp, uint8_t *bank);

}  // namespace fa::emu
