// vprintf of the device: formats one lane's call as C's printf would.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace fa::emu {

/// read: the argument buffer's bytes at an offset, as the given number of bytes; text: the string at a generic address.
/// Arguments are in the buffer as C promotes them, each aligned to its size.
std::string format_print(const std::string &format,
                         const std::function<uint64_t(uint32_t offset, uint32_t bytes)> &read,
                         const std::function<std::string(uint64_t address)> &text);

}  // namespace fa::emu
