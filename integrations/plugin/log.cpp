#include "plugin/log.h"

#include <strings.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

namespace fa_plugin {
namespace {

bool verbose() {
  static const bool on = [] {
    const char *value = std::getenv("FA_VERBOSE");
    constexpr const char *no[] = {"", "0", "off", "no", "false", "none"};
    return value &&
           std::none_of(std::begin(no), std::end(no), [&](const char *word) { return !strcasecmp(value, word); });
  }();
  return on;
}

}  // namespace

void print(const std::string &text) {
  std::fprintf(stderr, "libfa: " FA_PLUGIN_HOST ": %s\n", text.c_str());
}

void print_once(const std::string &text) {
  constexpr size_t max_texts = 1000;
  if (!verbose()) return;
  static std::mutex mutex;
  static std::set<std::string> printed;
  const std::lock_guard lock(mutex);
  if (printed.size() < max_texts && printed.insert(text).second) print(text);
}

}  // namespace fa_plugin
