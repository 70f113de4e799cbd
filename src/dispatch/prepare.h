// From an attention to the engine that runs it.
#pragma once

#include <memory>

#include "core/engine.h"

namespace fa::dispatch {

/// The kernel that was chosen for an attention, and the engine that is ready to run it.
struct Prepared {
  const KernelEntry *kernel = nullptr;
  std::unique_ptr<Engine> engine;
};

/// Chooses a kernel from the table and prepares it; under FA_DEVICE_AUTO a GPU's engine has a CPU's as its
/// fallback. FA_OK, or an error that core/status.h describes.
fa_status prepare(const Attention &attention, Prepared *prepared);

}  // namespace fa::dispatch
