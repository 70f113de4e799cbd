// No exception crosses the C boundary.
#pragma once

#include <exception>
#include <new>

#include "core/status.h"

namespace fa::api {

/// Runs body and answers its fa_status; an exception becomes one. The library throws when memory is short; whatever
/// else arrives was thrown by a function of the host (parallel_for, the log).
template <class Body>
fa_status guarded(Body &&body) {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return fail(FA_ERROR_OUT_OF_MEMORY, "out of memory: the host's memory is short; a smaller call may fit");
  } catch (const std::exception &error) {
    return fail(FA_ERROR_INVALID_ARGUMENT, "a function of the host threw \"%s\"; expected it to return", error.what());
  } catch (...) {
    return fail(FA_ERROR_INVALID_ARGUMENT, "a function of the host threw; expected it to return");
  }
}

}  // namespace fa::api
