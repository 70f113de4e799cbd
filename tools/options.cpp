// Numbers in lists, parsed to the last character. The rest of Options is in command_line.cpp, with the parser.
#include "options.h"

#include <charconv>

#include "error.h"

namespace fa::tool {

std::vector<int64_t> parse_integers(const std::string &option, const std::string &text, size_t low, size_t high,
                                    const std::string &form) {
  std::vector<int64_t> numbers;
  const char *at = text.data(), *end = text.data() + text.size();
  for (;;) {
    int64_t number = 0;
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc() || (rest != end && *rest != ',')) break;
    numbers.push_back(number);
    if (rest == end) {
      if (numbers.size() < low || numbers.size() > high) break;
      return numbers;
    }
    at = rest + 1;
  }
  bad_input("{} is '{}'; {} is expected", option, text, form);
}

}  // namespace fa::tool
