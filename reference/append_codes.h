// What a row of codes must be after fa_append: fa.h's definition, judged by the bytes of the row and of its scales.
#pragma once

#include <fa.h>

#include <functional>
#include <string>
#include <vector>

namespace reference {

/// The row of a token and a head.
struct ExpectedCodes {
  /// A number as it is quantised, in f32: one of those from low to high; or any, where a step before overflowed.
  struct Number {
    float low, high;
    bool any = false;
  };

  /// Scales or zeros: of computed ones where they are, of others what they are for each element.
  struct Factor {
    std::vector<const char *> at;  // of each group
    fa_dtype dtype = FA_F32;
    std::vector<float> given;
  };

  const char *row = nullptr;
  int64_t step = 1;  // bytes from an element to the next, of types that are not packed
  fa_dtype dtype = FA_I8;
  bool computed = false;
  std::vector<Number> numbers;
  Factor scale, zero;

  /// Calls f(address, bytes) for all that is written.
  void each_written(const std::function<void(const char *, int64_t)> &f) const;

  /// "" when all of it is as it must be.
  std::string fault() const;

 private:
  std::string fault_of_group(size_t group, std::vector<float> *scales, std::vector<float> *zeros) const;
  std::string fault_of_code(size_t d, float scale, float zero) const;
  std::string fault_of_block(size_t first) const;
};

}  // namespace reference
