#include "run_reference.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "error.h"
#include "text.h"

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

Reference::Reference(std::string path, const Array &result, std::string what)
    : path_(std::move(path)), what_(std::move(what)), array_(read_npy(path_)) {
  if (array_.shape != result.shape)
    bad_input("{}: shape {}; {} has shape {}", path_, shape_text(array_.shape), what_, shape_text(result.shape));
}

bool Reference::agrees(const Array &result, double max_error) const {
  const Distance distance = distance_between(result, array_);
  fmt::print("reference  {}: largest difference of {} {:.3g} at {}, relative {:.3g}\n", printable(path_), what_,
             distance.largest, shape_text(distance.where), distance.relative);
  if (max_error < 0 || distance.largest <= max_error) return true;
  std::fflush(stdout);
  fmt::print(stderr, "fa run: the largest difference of {} to {} is {:.3g}, more than --max-error {:g}\n", what_,
             printable(path_), distance.largest, max_error);
  return false;
}

}  // namespace fa::tool
