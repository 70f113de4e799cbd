// Options of several commands about attention itself, and the fields of fa_desc that they set.
#pragma once

#include <fa.h>

#include <cstdint>
#include <string>

#include "options.h"

namespace fa::tool {

/// The options that hide keys by their positions.
struct MaskOptions {
  bool causal = false, causal_top_left = false;
  std::string window;  // "LEFT,RIGHT"
  int64_t chunk = 0;
};

/// Defines --causal, --causal-top-left, --window and --chunk; options must live until the command line has been parsed.
void define_mask_options(Options *o, MaskOptions *options);

/// Throws BadInput.
void set_mask(const MaskOptions &options, fa_desc *desc);

/// The device of --device: "auto", "cpu", and "cuda" or "gpu".
fa_device device_of(const std::string &name);

}  // namespace fa::tool
