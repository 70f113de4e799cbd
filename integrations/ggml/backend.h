// The structures of ggml's interface for backends: a registration with one device, and backends of it.
#pragma once
#include <ggml-backend-impl.h>

namespace fa_ggml {

// The registration, which lives as long as the library.
ggml_backend_reg_t registration();

}  // namespace fa_ggml
