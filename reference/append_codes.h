// Rows of codes that fa_append has written, compared byte by byte with fa.h's definition, their scales included.
#pragma once

#include <fa.h>

#include <functional>
#include <string>
#include <vector>

namespace reference {

/// The expected codes of a token and a head.
struct ExpectedCodes {
  /// A number in f32 before it is quantised: between low and high; or any number, where a step before overflowed.
  struct Number {
    float low, high;
    bool any = false;
  };

  /// Scales or zeros.
  struct Factor {
    std::vector<const char *> at;  // address of each group's
    fa_dtype dtype = FA_F32;
    std::vector<float> given;  // of each element, where the call computes none
  };

  const char *row = nullptr;
  int64_t step = 1;  // bytes from an element to the next, of types that are not packed
  fa_dtype dtype = FA_I8;
  bool computed = false;
  std::vector<Number> numbers;
  Factor scale, zero;

  /// Calls f(address, bytes) for all memory that the call writes.
  void each_written(const std::function<void(const char *, int64_t)> &f) const;

  /// "" when all of it is right, else the first fault.
  std::string fault() const;

 private:
  std::string fault_of_group(size_t group, std::vector<float> *scales, std::vector<float> *zeros) const;
  std::string fault_of_code(size_t d, float scale, float zero) const;
  std::string fault_of_block(size_t first) const;
};

}  // namespace reference
