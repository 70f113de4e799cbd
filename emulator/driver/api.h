// The frame around every function of the API: it counts calls, maps exceptions to error codes, and says why on
// stderr. Functions are written as
//
//   EMU_API CUresult cuMemFree_v2(CUdeviceptr address) {
//     return api("cuMemFree", [&] { ...; return CUDA_SUCCESS; });
//   }
#pragma once

#include <new>
#include <string>

#include "driver/cuda.h"

namespace fa::emu::driver {

/// Ends a call with an error code and a reason.
struct ApiError {
  CUresult code;
  std::string reason;
};

[[noreturn]] inline void refuse(CUresult code, std::string reason) {
  throw ApiError{code, std::move(reason)};
}
inline void require(bool condition, const char *reason, CUresult code = CUDA_ERROR_INVALID_VALUE) {
  if (!condition) refuse(code, reason);
}

/// Counts the call; the error that FA_EMU_FAIL asks for, or success. before_init: allowed before cuInit.
CUresult enter(const char *name, bool before_init);
/// Says so on stderr and returns the code.
CUresult report_always(const char *name, CUresult code, const std::string &reason);
/// The same, unless FA_EMU_QUIET.
CUresult report(const char *name, CUresult code, const std::string &reason);
/// For a call that is no error: a line on stderr, unless FA_EMU_QUIET.
void warn(const char *name, const std::string &text);

template <class Body>
CUresult api(const char *name, Body body, bool before_init = false) {
  try {
    if (CUresult early = enter(name, before_init); early != CUDA_SUCCESS) return early;
    return body();
  } catch (const ApiError &error) {
    return report(name, error.code, error.reason);
  } catch (const std::bad_alloc &) {
    return report(name, CUDA_ERROR_OUT_OF_MEMORY, "the host's memory is exhausted");
  } catch (const std::exception &error) {
    return report(name, CUDA_ERROR_UNKNOWN, error.what());
  }
}

}  // namespace fa::emu::driver
