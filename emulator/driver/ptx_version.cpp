// The toolkits' numbers and PTX's.
#include "driver/ptx_version.h"

#include <cctype>

#include "driver/api.h"

namespace fa::emu::driver {
namespace {

constexpr int known_ptx = 90;  // whose instructions the families decode

/// "9.4" for 94.
std::string with_point(int tenths) {
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

/// "13.0" for a driver's version.
std::string cuda_of(int driver_version) {
  return std::to_string(driver_version / 1000) + "." + std::to_string(driver_version % 1000 / 10);
}

/// The first driver that knows the PTX.
int driver_of(int ptx) {
  int driver = 11000;
  while (newest_ptx(driver) < ptx) driver += driver % 1000 < 90 ? 10 : 910;
  return driver;
}

}  // namespace

int newest_ptx(int driver_version) {
  int major = driver_version / 1000, minor = driver_version % 1000 / 10;
  if (major >= 13) return 90 + (major - 13) * 10 + minor;
  // 12.5 and 12.6 share a version.
  if (major == 12) return 80 + (minor >= 6 ? minor - 1 : minor);
  return major == 11 ? 70 + minor : 65;
}

int written_version(std::string_view ptx) {
  constexpr std::string_view directive = ".version";
  size_t at = ptx.find(directive);
  if (at == std::string_view::npos) return 0;
  int tenths = 0;
  for (char c : ptx.substr(at + directive.size(), 8)) {
    if (std::isdigit(static_cast<unsigned char>(c)))
      tenths = tenths * 10 + c - '0';
    else if (c != '.' && tenths > 0)
      break;
  }
  return tenths;
}

void refuse_newer_ptx(int version, int driver_version) {
  if (version <= newest_ptx(driver_version)) return;
  std::string cuda = cuda_of(driver_version);
  refuse(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
         "PTX " + with_point(version) + " is newer than PTX " + with_point(newest_ptx(driver_version)) +
             ", the newest of a driver for CUDA " + cuda + ": compile with the nvcc of CUDA " + cuda +
             " or older, or have it tried with FA_EMU_DRIVER=" + std::to_string(driver_of(version)) +
             " (the instructions known here are those of PTX " + with_point(known_ptx) + ")");
}

std::string hint_of_newer_ptx(int version) {
  if (version <= known_ptx) return {};
  return "; the text is PTX " + with_point(version) + ", and the instructions known here are those of PTX " +
         with_point(known_ptx) + ", which the nvcc of CUDA " + cuda_of(driver_of(known_ptx)) + " writes";
}

}  // namespace fa::emu::driver
