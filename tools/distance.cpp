// Compares element by element in double precision.
#include "distance.h"

#include <cmath>
#include <limits>

namespace fa::tool {

Distance distance_between(const Array &array, const Array &reference) {
  Distance distance;
  double difference_norm = 0, reference_norm = 0;
  int64_t worst = -1;
  for (int64_t i = 0; i < array.elements(); ++i) {
    const double a = array.value(i), b = reference.value(i);
    double difference = std::abs(a - b);
    if (std::isnan(difference)) {
      // Two NaNs, or two infinities of one sign, agree.
      difference = (std::isnan(a) && std::isnan(b)) || a == b ? 0 : std::numeric_limits<double>::infinity();
    }
    if (worst < 0 || difference > distance.largest) {
      distance.largest = difference;
      worst = i;
    }
    difference_norm += difference * difference;
    if (std::isfinite(b)) reference_norm += b * b;
  }
  distance.relative = difference_norm == 0 ? 0 : std::sqrt(difference_norm / reference_norm);
  distance.where.resize(worst < 0 ? 0 : array.shape.size());
  for (size_t d = distance.where.size(); d-- > 0; worst /= array.shape[d]) distance.where[d] = worst % array.shape[d];
  return distance;
}

}  // namespace fa::tool
