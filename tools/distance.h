// How far two arrays are apart.
#pragma once

#include "npy.h"

namespace fa::tool {

struct Distance {
  double largest = 0;          // of any element, absolute; infinite where only one of the two is a number
  double relative = 0;         // Euclidean norm of the difference over that of the reference
  std::vector<int64_t> where;  // the index of the largest
};

/// Throws BadInput when the shapes differ; name is the reference's.
Distance distance_between(const Array &array, const Array &reference, const std::string &name);

}  // namespace fa::tool
