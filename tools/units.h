// Numbers with the unit that suits them.
#pragma once

#include <string>

namespace fa::tool {

/// "1.23 ms": three digits and a unit.
std::string seconds_text(double seconds);

/// "131 GB": powers of 1000, as GB/s has them.
std::string bytes_text(double bytes);

}  // namespace fa::tool
