// A thread a row, two blocks a cluster, as many blocks as there are multiprocessors; no softcap, no addends to scores.
#pragma once

#include "common/images.h"

namespace fa::kernels::probe {

constexpr int rows = 32;
constexpr int cluster = 2;

constexpr TileConfig tile(const Arch &, int, Entry entry) {
  if (entry != Entry::plain) return {};
  return {.rows = rows, .keys = 1, .threads = rows, .shared_bytes = 0, .cluster = cluster, .persistent = true};
}

inline const char *unsupported_call_reason(Entry, const Params &p) {
  if (p.softcap != 0) return "a softcap";
  return p.bias.data || p.mask.data || p.alibi_slopes.data ? "scores with an addend or a mask" : nullptr;
}

inline constexpr Family family = {
    tile,
    [](const Attention &a) { return Dtype(a.q_dtype); },
    [](const Attention &) -> const char * { return nullptr; },
    unsupported_call_reason,
    false,
};

}  // namespace fa::kernels::probe
