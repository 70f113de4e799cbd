// Environment variables are read where they are needed and never kept, so a program may set them between two fa_create.
#include "core/environment.h"

#include <cerrno>
#include <cstdlib>

#include "core/log.h"

namespace fa {

const char *environment(const char *name) {
  const char *value = secure_getenv(name);
  return value && *value ? value : nullptr;
}

int64_t environment_number(const char *name, int64_t low, int64_t high, int64_t fallback) {
  const char *value = environment(name);
  if (!value) return fallback;
  char *end = nullptr;
  errno = 0;
  const long long number = std::strtoll(value, &end, 10);
  const bool valid = errno == 0 && end != value && *end == '\0' && number >= low && number <= high;
  if (!valid && verbose_dispatch())
    log_message("%s is \"%s\", which is ignored: expected a number from %lld to %lld", name, value,
                static_cast<long long>(low), static_cast<long long>(high));
  return valid ? number : fallback;
}

}  // namespace fa
