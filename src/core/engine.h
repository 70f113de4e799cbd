// What every engine offers to the API: one prepared attention that serves validated calls.
#pragma once

#include <cstddef>

#include "core/call.h"

namespace fa {

/// What compute returns where an engine does not reach the call's memory and another may serve it (FA_DEVICE_AUTO).
/// Never leaves src/dispatch.
constexpr fa_status try_other_engine = -1;

/// What an engine does with calls of one kind: forward's are Problems, backward's Backwards. A further operation has a
/// kind of its own, made of Inputs, Execution and its outputs.
template <class Call>
class Operation {
 public:
  /// Bytes of workspace for a call, from its shapes, bounds and num_splits alone; never falls when a bound rises.
  virtual fa_status workspace_size(const Call &call, size_t *bytes) const = 0;

  /// Computes the call, or returns try_other_engine. The API has checked call.workspace against workspace_size when
  /// there is one.
  virtual fa_status compute(const Call &call) const = 0;

 protected:
  ~Operation() = default;
};

/// An attention prepared by an engine, with an Operation for each kind of call. Immutable after construction: calls may
/// come from any thread, concurrently. A failing call has described itself through core/status.h.
class Engine : public Operation<ForwardCall>, public Operation<BackwardCall> {
 public:
  virtual ~Engine() = default;

  using Operation<ForwardCall>::workspace_size;
  using Operation<ForwardCall>::compute;
  using Operation<BackwardCall>::workspace_size;
  using Operation<BackwardCall>::compute;
};

/// Room for a reason that names what it found.
struct Reason {
  char text[512];
};

/// The names of the kernels that compute gradients, best first; none in a build without a backward pass.
struct BackwardNames {
  const char *names[4];
  size_t count;
};

/// One line of the dispatch table, which is sorted best first: a kernel family that an engine can run.
struct Kernel {
  const char *name;            // "cpu.avx2"
  fa_device device;            // FA_DEVICE_CPU or FA_DEVICE_CUDA
  const char *arch;            // "avx2", "sm_80"
  const char *compute_dtypes;  // "f32", "f16 bf16"
  BackwardNames backward;

  /// nullptr when this machine can run the kernel, else the reason, a string that lives as long as the library.
  const char *(*unavailable_reason)(const Kernel &kernel);

  /// nullptr when the kernel supports this attention, on the device that it names, else the reason, which may lie in
  /// *room.
  const char *(*unsupported_reason)(const Kernel &kernel, const Attention &attention, Reason *room);

  /// Prepares the attention; nullptr after an error that core/status.h describes. alone: what this kernel does not
  /// serve no other does.
  Engine *(*create)(const Kernel &kernel, const Attention &attention, bool alone);
};

/// An engine's lines of the table, best first. They are constants: asking for them cannot fail.
struct KernelList {
  const Kernel *first;
  size_t count;
};

}  // namespace fa
