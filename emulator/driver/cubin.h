// The description of kernels in machine code: registers and stack, which the emulator takes from the cubin next to the
// PTX.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

namespace fa::emu::driver {

struct KernelResources {
  uint32_t registers = 0;    // a thread; 0: unknown, no limit
  uint32_t stack_bytes = 0;  // a thread
  bool known = false;
};

using CubinResources = std::unordered_map<std::string, KernelResources>;

/// Reads the .nv.info section of an ELF image; nothing where the image is damaged.
CubinResources resources_of(std::span<const uint8_t> cubin);

}  // namespace fa::emu::driver
