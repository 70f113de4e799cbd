// The state of a caller's thread that the library preserves: floating-point environment and errno. The library computes
// in the default environment, which an application's threads need not have.
#pragma once

#include <type_traits>

#if defined(__x86_64__) || defined(__aarch64__)
#include <cstdint>
#else
#include <cfenv>
#endif

namespace fa {

/// Control and exception flags. Of x86 those of SSE: the library has no x87 instruction (test abi.x87).
#if defined(__x86_64__)
using FloatEnvironment = uint32_t;
#elif defined(__aarch64__)
struct FloatEnvironment {
  uint64_t control, flags;
};
#else
using FloatEnvironment = std::fenv_t;
#endif

/// State of an application's thread on entry.
struct CallerState {
  FloatEnvironment floats;
  int error;
};

/// Calls body(ctx, state) in the default environment: rounding to nearest, subnormal numbers kept, no exception
/// trapped. Afterwards the thread's environment, exception flags included, and errno are as they were, also when body
/// throws. Both functions are compiled where no optimiser sees through them, so none moves arithmetic out of body.
void call_in_default_state(void (*body)(void *ctx, CallerState &state), void *ctx);

/// Within that, calls body(ctx), the application's code, in its thread's own state; changes that it makes persist.
void call_in_caller_state(CallerState &state, void (*body)(void *ctx), void *ctx);

template <class Body>
void in_default_state(Body &&body) {
  call_in_default_state(
      [](void *ctx, CallerState &state) { (*static_cast<std::remove_reference_t<Body> *>(ctx))(state); }, &body);
}

template <class Body>
void in_caller_state(CallerState &state, Body &&body) {
  call_in_caller_state(
      state, [](void *ctx) { (*static_cast<std::remove_reference_t<Body> *>(ctx))(); }, &body);
}

}  // namespace fa
