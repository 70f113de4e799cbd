// What is written has a place of its own for each element.
#pragma once

#include <fa.h>

namespace fa::api {

/// Refuses a tensor of which two elements are in one place. It has elements, and strides within 2^63 bytes.
bool check_distinct(const char *name, const fa_tensor &tensor);

}  // namespace fa::api
