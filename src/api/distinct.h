// No two elements of a written tensor share an address.
#pragma once

#include <fa.h>

namespace fa::api {

/// Refuses a tensor that has two elements at one address. It has elements, and strides within 2^63 bytes.
bool check_distinct(const char *name, const fa_tensor &tensor);

}  // namespace fa::api
