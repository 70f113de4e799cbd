// Versions of PTX: which driver knows which, and what to do about a text that is too new.
#pragma once

#include <string>
#include <string_view>

namespace fa::emu::driver {

/// The newest PTX that a driver (13000 for 13.0) knows, as 90 for 9.0.
int newest_ptx(int driver_version);

/// What the text's .version says; 0: nothing.
int written_version(std::string_view ptx);

/// Refuses PTX that is newer than the driver.
void refuse_newer_ptx(int version, int driver_version);

/// Behind the reason why a text does not run: that it is newer than what is known here, where it is.
std::string hint_of_newer_ptx(int version);

}  // namespace fa::emu::driver
