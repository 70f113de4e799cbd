// What the library finds on a thread and leaves as it was: the floating-point environment and errno. The library
// computes in the default environment, which threads of the host need not have.
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

/// What a thread of the host had when it came in.
struct HostState {
  FloatEnvironment floats;
  int error;
};

/// Calls body(ctx, state) in the default environment: rounding to nearest, subnormal numbers kept, no exception
/// trapped. Afterwards the thread's environment, exception flags included, and errno are as they were, also when body
/// throws. Both functions are compiled where no optimiser sees through them, so none moves arithmetic out of body.
void call_in_default_state(void (*body)(void *ctx, HostState &state), void *ctx);

/// Within that, calls body(ctx), which is the host's, in the state that its thread had; what it leaves there stays.
void call_in_hosts_state(HostState &state, void (*body)(void *ctx), void *ctx);

template <class Body>
void in_default_state(Body &&body) {
  call_in_default_state(
      [](void *ctx, HostState &state) { (*static_cast<std::remove_reference_t<Body> *>(ctx))(state); }, &body);
}

template <class Body>
void in_hosts_state(HostState &state, Body &&body) {
  call_in_hosts_state(
      state, [](void *ctx) { (*static_cast<std::remove_reference_t<Body> *>(ctx))(); }, &body);
}

}  // namespace fa
