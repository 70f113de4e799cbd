// What an fa_op is.
#pragma once

#include <memory>

#include "core/engine.h"

struct fa_op {
  fa::Attention attention;
  const fa::Kernel *kernel;
  std::unique_ptr<fa::Engine> engine;
};
