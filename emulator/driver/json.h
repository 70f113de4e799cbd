// Pieces of JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fa::emu::driver {

/// Text in quotation marks.
std::string quoted(std::string_view text);
std::string triple(const uint32_t (&values)[3]);

}  // namespace fa::emu::driver
