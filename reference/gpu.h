// The GPU under test, through NVIDIA's driver (or the emulator): lets it see the memory of the tests, at the same
// addresses, and waits for its work.
#pragma once

#include <cstddef>
#include <string>

namespace reference {

/// True for a name of a GPU: a kernel's ("cuda.sm_80.mma"), an architecture's ("sm_80"), or "cuda".
bool is_gpu(const std::string &kernel);

/// From now on memory of the tests is shared with the first GPU, or no longer is.
void share_memory(bool shared);

/// Lets the GPU reach bytes of the host, where memory is shared. True when unshare_bytes must follow.
bool share_bytes(void *data, size_t bytes);
void unshare_bytes(void *data);

/// Waits for the GPU: "" when all that it did went well, else the driver's name of the error. After an error it is as
/// it was in the beginning.
std::string wait_for_gpu();

}  // namespace reference
