// GGML_OP_FLASH_ATTN_EXT by fa_forward.
#pragma once
#include <ggml.h>

#include <cstdint>
#include <string>

#include "plugin/memory.h"

namespace fa_ggml {

// The state of a backend between calls. One thread uses it at a time, as it does a ggml_backend.
struct State {
  int32_t threads = 4;  // ggml's default, until ggml_backend_set_n_threads
  fa_plugin::Memory workspace, bias, queries, out;
};

// Why libfa does not compute the op; "" where it does.
std::string refusal(const ggml_tensor &op);

// Computes an op that has no refusal. Throws fa::Error or std::bad_alloc.
void compute(const ggml_tensor &op, State *state);

}  // namespace fa_ggml
