// The tables of tiles that a build may have: the build's FA_TILE_PRESET names one. Compiled by the host's compiler and by
// nvcc alike.
#pragma once

namespace fa::kernels {

enum class Preset {
  standard,  // fastest by perf/kernel-model.md, or measured so
#define FA_PRESET(name, family) name,
#include "presets.inc"
#undef FA_PRESET
};

#ifndef FA_TILE_PRESET
#define FA_TILE_PRESET standard
#endif
constexpr Preset built_preset = Preset::FA_TILE_PRESET;

/// The preset that a head dimension's standard tiles are those of.
struct Winner {
  int dim;
  Preset preset;
};

}  // namespace fa::kernels
