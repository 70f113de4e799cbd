// The library's messages while a test runs.
#pragma once

#include <fa.h>

#include <cstdlib>
#include <string>

namespace test {

/// The library's messages, for the life of the object.
class Log {
 public:
  Log() {
    setenv("FA_VERBOSE", "dispatch", 1);
    fa_set_log([](void *self, const char *line) { static_cast<Log *>(self)->text += std::string(line) + "\n"; }, this);
  }
  ~Log() {
    fa_set_log(nullptr, nullptr);
    unsetenv("FA_VERBOSE");
  }
  Log(const Log &) = delete;
  Log &operator=(const Log &) = delete;

  bool has(const char *words) const { return text.find(words) != std::string::npos; }

  std::string text;
};

}  // namespace test
