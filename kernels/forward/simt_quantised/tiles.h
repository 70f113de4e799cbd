// The tiles of the scalar kernels for quantised keys and values: those of simt.
#pragma once

#include "common/quantised_params.h"
#include "forward/simt/tiles.h"

namespace fa::kernels::simt_quantised {

constexpr TileConfig tile(const Arch &arch, int dim, Entry entry) {
  return simt::tile(arch, dim, entry);
}

#ifndef __CUDACC_RTC__  // NVRTC would put it on the device
/// Supports every attention.
inline constexpr QuantisedFamily family = {
    {
        tile,
        [](const Attention &) { return f32; },
        [](const Attention &) -> const char * { return nullptr; },
        [](Entry, const Params &) -> const char * { return nullptr; },
        true,
        nullptr,
        true,
    },
    [](const Attention &, int32_t) -> const char * { return nullptr; },
    [](const QuantisedParams &) -> const char * { return nullptr; },
    true,
};
#endif

}  // namespace fa::kernels::simt_quantised
