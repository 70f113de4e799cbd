// The comparison of `fa run` with a reference: the distance of two arrays.
#pragma once

#include <string>

#include "npy.h"

namespace fa::tool {

struct Distance {
  double largest = 0;          // of any element, absolute; infinite where only one of the two is a number
  double relative = 0;         // Euclidean norm of the difference over that of the reference
  std::vector<int64_t> where;  // the index of the largest
};

/// The largest distance between two arrays of one shape.
Distance distance_between(const Array &array, const Array &reference);

class Reference {
 public:
  /// Reads the file. Throws BadInput where its shape is not that of the result; what: its name, "the output".
  Reference(std::string path, const Array &result, std::string what);

  /// Prints how far the result is from it; false where that is more than max_error, which is negative for no bound.
  bool agrees(const Array &result, double max_error) const;

 private:
  std::string path_, what_;
  Array array_;
};

}  // namespace fa::tool
