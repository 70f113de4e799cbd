// What an fa_op is.
#pragma once

#include <memory>

#include "core/engine.h"

struct fa_op {
  fa::Attention attention;
  const fa::Kernel *kernel;
  std::unique_ptr<fa::Engine> engine;

  // FA_DEVICE_AUTO where there is a GPU: what serves the calls whose tensors it does not reach.
  const fa::Kernel *host_kernel = nullptr;
  std::unique_ptr<fa::Engine> host_engine;
};
