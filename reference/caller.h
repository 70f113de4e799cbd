// The state of a thread that calls the library: a floating-point environment and errno.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reference {

/// The environments other than the default that a thread of this machine can have. Rounding: "up", "down", "to_zero".
/// Subnormal numbers taken for 0: "ftz" (results), "daz" (operands). Every exception trapped: "traps". On ARM also one
/// NaN for all, "one_nan", and the other 16-bit format, without infinities: "other_half".
std::vector<std::string> float_environments();

/// The calling thread's environment and errno are others while this lives: the one of that name ("": the default) with
/// one exception flag raised, and an errno that no function of the C library sets. Both are as before when it ends.
class Caller {
 public:
  explicit Caller(const std::string &environment);
  ~Caller();
  Caller(const Caller &) = delete;
  Caller &operator=(const Caller &) = delete;

  /// "" when environment and errno are as they were given, else the difference.
  std::string changed() const;

  struct State {
    uint64_t control, flags;
    int error;
  };

 private:
  State before_, given_;
};

/// "" when the calling thread has all that a Caller in that environment has, else the difference.
std::string other_caller_than(const std::string &environment);

}  // namespace reference
