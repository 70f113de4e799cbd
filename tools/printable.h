// Text that others chose, as a terminal may show it.
#pragma once

#include <string>
#include <string_view>

namespace fa::tool {

/// The text with control characters, and bytes that are no UTF-8, written as \x1b: names of files and what files hold
/// may not move a terminal's cursor or begin a line of their own. lines: the ends of lines are meant, and stay.
std::string printable(std::string_view text, bool lines = false);

}  // namespace fa::tool
