// The two ways in which the tool fails, each with its exit code.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace fa::tool {

inline constexpr int exit_ok = 0;
inline constexpr int exit_failure = 1;    // a check that failed, a fault at run time
inline constexpr int exit_bad_input = 2;  // wrong usage, or a file with wrong contents

/// A mistake in the person's input: exit code 2.
class BadInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The work itself failed: exit code 1.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void bad_input(fmt::format_string<Args...> format, Args &&...args) {
  throw BadInput(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void failure(fmt::format_string<Args...> format, Args &&...args) {
  throw Failure(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace fa::tool
