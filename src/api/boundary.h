// The frame of every function of fa.h that does more than look: no exception crosses the C boundary, and the calling
// thread's floating-point environment and errno neither change nor matter.
#pragma once

#include <exception>
#include <new>

#include "core/log.h"
#include "core/status.h"
#include "core/thread_state.h"

namespace fa::api {

/// Runs body(caller) in the library's own thread state and returns its fa_status; an exception becomes one. The library
/// throws when memory is short; any other exception was thrown by a function of the program (parallel_for, the log).
template <class Body>
fa_status guarded(Body &&body) {
  fa_status status;
  in_default_state([&](CallerState &caller) {
    const LogScope thread(caller);
    try {
      status = body(caller);
    } catch (const std::bad_alloc &) {
      status = fail(FA_ERROR_OUT_OF_MEMORY, "out of memory: the host's memory is short; a smaller call may fit");
    } catch (const std::exception &error) {
      status = fail(FA_ERROR_INVALID_ARGUMENT, "a function of the program threw \"%s\"; expected it to return",
                    error.what());
    } catch (...) {
      status = fail(FA_ERROR_INVALID_ARGUMENT, "a function of the program threw; expected it to return");
    }
  });
  return status;
}

}  // namespace fa::api
