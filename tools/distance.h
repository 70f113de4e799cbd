// How far two arrays are apart.
#pragma once

#include "npy.h"

namespace fa::tool {

struct Distance {
  double largest = 0;          // of any element, absolute; infinite where only one of the two is a number
  double relative = 0;         // Euclidean norm of the difference over that of the reference
  std::vector<int64_t> where;  // the index of the largest
};

/// Of two arrays of one shape.
Distance distance_between(const Array &array, const Array &reference);

}  // namespace fa::tool
