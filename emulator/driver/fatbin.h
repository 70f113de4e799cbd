// Fat binaries: containers of PTX and machine code for several targets, compressed or not, and the driver's choice.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "driver/cubin.h"
#include "driver/devices.h"

namespace fa::emu::driver {

/// The kinds of an image, by its first bytes.
enum class ImageKind : uint8_t { ptx, fatbin, elf };
ImageKind kind_of(const void *image);

/// Bytes of an image, for copies; a fatbin wrapper is followed. PTX ends with a zero, which is counted.
std::vector<uint8_t> copy_of_image(const void *image);

/// The code that the driver would run on a device.
struct Chosen {
  std::string ptx;
  CubinResources resources;  // from the machine code that belongs to it; empty where it has none
  bool compiled = false;     // the driver would take machine code, and so would not look at the PTX
};

/// Chooses from an image; refuses with the driver's error code. driver_version: 13000 for 13.0, whose PTX is 9.0.
Chosen choose(const void *image, const DeviceLimits &device, int driver_version);

}  // namespace fa::emu::driver
