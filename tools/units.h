// Numbers with the unit that suits them.
#pragma once

#include <string>

namespace fa::tool {

/// "1.23 ms": three digits and a unit.
std::string seconds_text(double seconds);

}  // namespace fa::tool
