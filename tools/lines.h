// Text as lines.
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

}  // namespace fa::tool
