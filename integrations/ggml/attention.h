// GGML_OP_FLASH_ATTN_EXT by fa_forward.
#pragma once
#include <ggml.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fa_ggml {

// Memory that grows and is never cleared, aligned for any use by libfa.
class Memory {
 public:
  void *at_least(size_t bytes);
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(void *memory) const;
  };
  std::unique_ptr<void, Free> memory_;
  size_t size_ = 0;
};

// What a backend keeps from call to call. One thread uses it at a time, as it does a ggml_backend.
struct State {
  int32_t threads = 4;  // ggml's default, until ggml_backend_set_n_threads
  Memory workspace, bias, out;
};

// Why libfa does not compute the op; "" where it does.
std::string refusal(const ggml_tensor &op);

// Computes an op that has no refusal. Throws fa::Error or std::bad_alloc.
void compute(const ggml_tensor &op, State *state);

}  // namespace fa_ggml
