// From the options of `fa draw` to its picture: the keys that each query attends, and their weights, as a call of the
// library returns them.
#pragma once

#include <fa.h>

#include <cstdint>
#include <string>
#include <vector>

#include "attention_options.h"
#include "mask_svg.h"
#include "options.h"
#include "schema/schema.h"

/// The inputs of fa_forward that may decide which keys a query attends, or their weights.
#define FA_DRAW_FIELDS(TENSOR, ARRAY, OTHER) \
  FA_INPUT_FIELDS(TENSOR, ARRAY, OTHER)      \
  FA_TREE_FIELDS(TENSOR, ARRAY, OTHER)

namespace fa::tool {

/// The most queries, and the most keys, of a picture.
inline constexpr int64_t draw_limit = 256;

struct DrawOptions : MaskOptions {
  // A path or numbers; "" where not given.
#define FA_TEXT(name, ...) std::string name;
  FA_DRAW_FIELDS(FA_TEXT, FA_TEXT, FA_NOTHING)
#undef FA_TEXT
  std::string cu_seqlens, out, title, kernel;
  int64_t queries = 0, keys = 0;  // 0: those of the tensors
};

/// Defines them; options must live until the command line has been parsed.
void define_draw_options(Options *o, DrawOptions *options);

/// The panels of a call, its sequences and then their heads. Throws BadInput.
Drawing drawing_of(const DrawOptions &options);

}  // namespace fa::tool
