// The address space that kernels see. Device memory is the host memory behind it: a generic address with nothing in its
// top byte is a host pointer. The other state spaces are windows, which differ in the top byte.
#pragma once

#include <cstdint>

namespace fa::emu::memory {

constexpr int window_shift = 56;
constexpr uint64_t shared_window = uint64_t{1} << window_shift;
constexpr uint64_t local_window = uint64_t{2} << window_shift;
constexpr uint64_t param_window = uint64_t{3} << window_shift;
constexpr uint64_t function_window = uint64_t{4} << window_shift;  // addresses of functions, for indirect calls
constexpr uint64_t offset_mask = shared_window - 1;

/// A shared address is 32 bits: the CTA's rank in its cluster above, the offset below. As on Hopper, an address of
/// one's own shared memory carries one's own rank, and clearing bit 24 gives the even CTA of a pair.
constexpr int rank_shift = 24;
/// Where a CTA's shared memory begins; the addresses below belong to the system since SM 8.0, and catches null
/// pointers.
constexpr uint32_t shared_begin = 1024;

}  // namespace fa::emu::memory
