// An engine: one prepared attention that executes validated calls.
#pragma once

#include <cstddef>

#include "core/operations.h"

namespace fa {

/// The status of execute where an engine does not reach the call's memory and another may (FA_DEVICE_AUTO). Never
/// leaves src/dispatch.
constexpr fa_status try_other_engine = -1;

/// The interface of an engine for the calls of one operation.
template <class Call>
class Operation {
 public:
  /// Bytes of workspace for a call, from its shapes, bounds and num_splits alone; never falls when a bound rises.
  virtual fa_status workspace_size(const Call &call, size_t *bytes) const = 0;

  /// Executes the call, or returns try_other_engine. On return the call is complete on a CPU, and enqueued on its
  /// stream on a GPU. The API has checked the size of a workspace that the caller gave.
  virtual fa_status execute(const Call &call) const = 0;

 protected:
  ~Operation() = default;
};

template <class Calls>
class EngineOf;

template <class... Calls>
class EngineOf<CallList<Calls...>> : public Operation<Calls>... {
 public:
  virtual ~EngineOf() = default;

  using Operation<Calls>::workspace_size...;
  using Operation<Calls>::execute...;
};

/// An attention prepared by an engine, with an Operation for each type of call. Immutable after construction: calls may
/// come from any thread, concurrently. A failing call has described itself through core/status.h.
using Engine = EngineOf<AllCalls>;

/// An Engine whose operations are two templates of the class Derived: do_workspace_size and do_execute.
template <class Derived, class Calls = AllCalls>
class EngineBase;

template <class Derived>
class EngineBase<Derived, CallList<>> : public Engine {};

template <class Derived, class Call, class... Others>
class EngineBase<Derived, CallList<Call, Others...>> : public EngineBase<Derived, CallList<Others...>> {
 public:
  using Engine::execute;
  using Engine::workspace_size;

  fa_status workspace_size(const Call &call, size_t *bytes) const final {
    return static_cast<const Derived &>(*this).do_workspace_size(call, bytes);
  }

  fa_status execute(const Call &call) const final { return static_cast<const Derived &>(*this).do_execute(call); }
};

/// Memory for a reason that contains names and numbers.
struct MessageBuffer {
  char text[512];
};

/// The names of the kernels that compute gradients, best first; none in a build without a backward pass.
struct BackwardNames {
  const char *names[4];
  size_t count;
};

/// An entry of the dispatch table, which is sorted best first: a kernel family of an engine.
struct KernelEntry {
  const char *name;            // "cpu.avx2"
  fa_device device;            // FA_DEVICE_CPU or FA_DEVICE_CUDA
  const char *arch;            // "avx2", "sm_80"
  const char *compute_dtypes;  // "f32", "f16 bf16"
  BackwardNames backward;

  /// nullptr when this machine can run the kernel, else the reason, a string that lives as long as the library.
  const char *(*unavailable_reason)(const KernelEntry &kernel);

  /// nullptr when the kernel supports this attention, on the device that it names, else the reason, which may be in
  /// *buffer.
  const char *(*unsupported_reason)(const KernelEntry &kernel, const Attention &attention, MessageBuffer *buffer);

  /// Prepares the attention; nullptr after an error, which core/status.h has recorded. alone: there is no other kernel
  /// for the calls that this one does not support.
  Engine *(*create)(const KernelEntry &kernel, const Attention &attention, bool alone);
};

/// An engine's entries of the table, best first: constants, so that a program can list them even out of memory.
struct KernelList {
  const KernelEntry *first;
  size_t count;
};

}  // namespace fa
