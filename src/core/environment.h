// Environment variables, ignored in set-user-ID programs.
#pragma once

#include <cstdint>

namespace fa {

/// The variable's value, or nullptr when it is unset, empty, or not to be trusted.
const char *environment(const char *name);

/// The variable as a decimal number in [low, high]; fallback when it is unset or invalid, which FA_VERBOSE logs.
int64_t environment_number(const char *name, int64_t low, int64_t high, int64_t fallback);

}  // namespace fa
