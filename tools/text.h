// Text for people: lines, numbers with units, names that a person may have meant, and the text of others made safe for
// a terminal.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace fa::tool {

/// The lines of a text, without their newlines.
inline std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// The text with control characters, and invalid UTF-8, written as \x1b: names and contents of files may not move a
/// terminal's cursor or begin a new line. lines: the ends of lines are meant, and stay.
std::string printable(std::string_view text, bool lines = false);

/// "1.23 ms": three digits and a unit.
std::string seconds_text(double seconds);

/// "131 GB": powers of 1000, as GB/s has them.
std::string bytes_text(double bytes);

/// "; did you mean X?" for the nearest of the names, "" when none is near. The part of the word after an '=' does not
/// count.
std::string suggestion(const std::string &word, const std::vector<std::string> &names);

}  // namespace fa::tool
