// What `fa run` compares its results with.
#pragma once

#include <string>

#include "npy.h"

namespace fa::tool {

class Reference {
 public:
  /// Reads the file. Throws BadInput where its shape is not that of the result; what names that, "the output".
  Reference(std::string path, const Array &result, std::string what);

  /// Prints how far the result is from it; false where that is more than max_error, which is negative for no bound.
  bool agrees(const Array &result, double max_error) const;

 private:
  std::string path_, what_;
  Array array_;
};

}  // namespace fa::tool
