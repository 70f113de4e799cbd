// Versions of PTX: which driver knows which, and the advice for a text that is too new.
#pragma once

#include <string>
#include <string_view>

namespace fa::emu::driver {

/// The newest PTX that a driver (13000 for 13.0) knows, as 90 for 9.0.
int newest_ptx(int driver_version);

/// The text's .version; 0: it has none.
int written_version(std::string_view ptx);

/// Refuses PTX that is newer than the driver.
void refuse_newer_ptx(int version, int driver_version);

/// An addition to the reason why a text does not run, where it is newer than all versions known here.
std::string hint_of_newer_ptx(int version);

}  // namespace fa::emu::driver
