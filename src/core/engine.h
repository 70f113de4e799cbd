// What every engine offers to the API: one prepared attention that serves validated problems.
#pragma once

#include <cstddef>

#include "core/problem.h"

namespace fa {

/// What forward answers instead of computing when an engine does not reach the problem's memory and the attention may be
/// served elsewhere (FA_DEVICE_AUTO). Never leaves the library.
constexpr fa_status not_here = -1;

/// An attention prepared by an engine. Immutable after construction: forward may be called from any thread,
/// concurrently. A failing call has described itself through core/status.h.
class Engine {
 public:
  virtual ~Engine() = default;

  /// Bytes of workspace for a problem, from its shapes, bounds and num_splits alone; never falls when a bound rises.
  virtual fa_status workspace_size(const Problem &problem, size_t *bytes) const = 0;

  /// Computes the problem, or answers not_here. The API has checked problem.workspace against workspace_size when there
  /// is one.
  virtual fa_status forward(const Problem &problem) const = 0;
};

/// Room for a reason that names what it found.
struct Reason {
  char text[512];
};

/// One line of the dispatch table: a kernel family that an engine can run. Lines stand best first.
struct Kernel {
  const char *name;    // "cpu.avx2"
  const char *device;  // "cpu", "cuda"
  const char *arch;    // "avx2", "sm_80"
  const char *dtypes;  // what it computes in: "f32", "bf16"

  /// nullptr when this machine can run the kernel, else the reason why not, a string that lives as long as the library.
  const char *(*why_not_here)(const Kernel &kernel);

  /// nullptr when the kernel serves this attention, else the reason why not, which may lie in *room.
  const char *(*why_not)(const Kernel &kernel, const Attention &attention, Reason *room);

  /// Prepares the attention; nullptr after an error that core/status.h describes.
  Engine *(*create)(const Kernel &kernel, const Attention &attention);
};

/// An engine's lines of the table, best first. They are constants: asking for them cannot fail.
struct KernelList {
  const Kernel *first;
  size_t count;
};

}  // namespace fa
