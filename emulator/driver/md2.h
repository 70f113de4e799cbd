// The hash MD2 (RFC 1319), and HMAC (RFC 2104) over it: by which the CUDA runtime checks a driver (export_check.cpp).
// Of no use where a hash has to be strong.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace fa::emu::driver {

using Md2Digest = std::array<uint8_t, 16>;

Md2Digest md2(std::span<const uint8_t> message);
/// key: of one block.
Md2Digest hmac_md2(const Md2Digest &key, std::span<const uint8_t> message);

}  // namespace fa::emu::driver
