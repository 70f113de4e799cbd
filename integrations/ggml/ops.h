// Ops of libfa by their descriptions: ggml describes an attention at each call, and libfa once.
#pragma once
#include <fa.hpp>
#include <memory>

namespace fa_ggml {

// The op of a description, created at its first use. Throws fa::Error. Thread-safe.
std::shared_ptr<const fa::Op> op_of(const fa_desc &desc);

}  // namespace fa_ggml
