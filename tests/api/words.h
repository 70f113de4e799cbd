// Shared by the tests of texts and environment variables.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

namespace api_test {

/// "" when the text has every word, else which it lacks.
inline std::string missing_words(const std::string &text, const std::vector<std::string> &words) {
  std::string missing;
  for (const std::string &word : words) {
    if (text.find(word) == std::string::npos) missing += " [" + word + "]";
  }
  return missing.empty() ? "" : "the text \"" + text + "\" lacks" + missing;
}

/// Sets an environment variable for the life of the object.
class Variable {
 public:
  Variable(const char *name, const char *value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable &) = delete;
  Variable &operator=(const Variable &) = delete;

 private:
  const char *name_;
};

}  // namespace api_test
