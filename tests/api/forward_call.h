// The call of call.h by the name of its operation.
#pragma once

#include "call.h"

namespace api_test {

using ForwardCall = Call;

}  // namespace api_test
