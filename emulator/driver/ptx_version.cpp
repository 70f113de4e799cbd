// The toolkits' numbers and PTX's.
#include "driver/ptx_version.h"

#include <algorithm>
#include <charconv>
#include <climits>

#include "driver/api.h"

namespace fa::emu::driver {
namespace {

constexpr int known_ptx = 90;  // whose instructions the families decode
constexpr unsigned max_major = 99;

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
  ptx.remove_prefix(std::min(ptx.find_first_not_of(" \t", at + directive.size()), ptx.size()));
  unsigned major = 0, minor = 0;
  const char *end = ptx.data() + ptx.size();
  auto [rest, error] = std::from_chars(ptx.data(), end, major);
  if (error == std::errc::invalid_argument) return 0;
  bool has_minor = error == std::errc() && rest != end && *rest == '.';
  if (has_minor && std::from_chars(rest + 1, end, minor).ec == std::errc::result_out_of_range) minor = UINT_MAX;
  if (error != std::errc() || major > max_major || minor > 9)
    refuse(CUDA_ERROR_INVALID_PTX, ".version " + std::string(ptx.substr(0, ptx.find_first_of(" \t\r\n"))) +
                                       " is not a version of PTX, such as " + with_point(known_ptx));
  return static_cast<int>(major * 10 + minor);
}

void refuse_newer_ptx(int version, int driver_version) {
  if (version <= newest_ptx(driver_version)) return;
  std::string cuda = cuda_of(driver_version);
  refuse(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
         "PTX " + with_point(version) + " is newer than PTX " + with_point(newest_ptx(driver_version)) +
             ", the newest of a driver for CUDA " + cuda + ": compile with the nvcc of CUDA " + cuda +
             " or older, or set FA_EMU_DRIVER=" + std::to_string(driver_of(version)) +
             " to try it anyway (the instructions known here are those of PTX " + with_point(known_ptx) + ")");
}

std::string hint_of_newer_ptx(int version) {
  if (version <= known_ptx) return {};
  return "; the text is PTX " + with_point(version) + ", and the instructions known here are those of PTX " +
         with_point(known_ptx) + ", as emitted by nvcc " + cuda_of(driver_of(known_ptx));
}

}  // namespace fa::emu::driver
