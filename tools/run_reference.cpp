#include "run_reference.h"

#include <fmt/format.h>

#include "distance.h"
#include "error.h"
#include "printable.h"

namespace fa::tool {

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
