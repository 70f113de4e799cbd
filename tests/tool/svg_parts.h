// Reads the pictures of `fa draw`, `fa explain` and `fa bench` back.
#pragma once

#include <string>
#include <vector>

namespace test {

/// The parts of a text from each `begin` to the next `end`, without these two.
inline std::vector<std::string> between(const std::string &text, const std::string &begin, const std::string &end) {
  std::vector<std::string> parts;
  for (size_t at = 0; (at = text.find(begin, at)) != text.npos;) {
    at += begin.size();
    parts.push_back(text.substr(at, text.find(end, at) - at));
  }
  return parts;
}

}  // namespace test
