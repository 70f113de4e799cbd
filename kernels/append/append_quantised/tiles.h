// The blocks of the append kernel for quantised caches: those of append, or as many rows as lanes share one each.
#pragma once

#include "append/append/tiles.h"
#include "common/append_codes_params.h"

namespace fa::kernels::append_quantised {

using append::threads;

/// A thread has eight numbers of a row, unless a warp is too small for that.
constexpr int octet = 8;

/// The lanes that share a row of this many numbers, or a group: the power of two that is not below an octet each.
constexpr int lanes_of(int numbers) {
  int lanes = 1;
  while (lanes < 32 && lanes * octet < numbers) lanes *= 2;
  return lanes;
}

/// A token's rows in the call and in the cache; in shared memory.
struct alignas(16) TokenRow {
  const char *from;  // null: nowhere
  int64_t entry, row, position;
};

constexpr int round_up(int x, int to) {
  return (x + to - 1) / to * to;
}

/// Sets the layout of a row in shared memory, from all else of a stream.
constexpr void set_memory(CodeStream *c) {
  c->scales_at = round_up(c->dim, octet) * int(sizeof(float));
  c->zeros_at = c->scales_at + c->scales * int(sizeof(float));
  c->codes_at = round_up(c->zeros_at + c->zeros * int(sizeof(float)), 8);
  c->memory = round_up(c->codes_at + round_up(c->code_bytes, octet), 16);
}

/// Shared memory of a block with rows of a stream.
constexpr int shared_bytes(const CodeStream &c) {
  return threads / c.lanes * (c.memory + int(sizeof(TokenRow)));
}

/// The most of it: rows of 576 numbers that have a scale and a zero each, or of few numbers.
constexpr int max_shared_bytes = 40 << 10;

constexpr TileConfig tile(const Arch &, int, Entry entry) {
  if (entry != Entry::combine) return {};
  return {1, 0, threads, max_shared_bytes};
}

#ifndef __CUDACC_RTC__  // NVRTC would put it on the device
/// Caches whose k or v is quantised; the plan takes it for rotated ones as well.
inline constexpr QuantisedFamily family = {
    {
        tile,
        [](const Attention &) { return f32; },
        [](const Attention &) -> const char * { return nullptr; },
        [](Entry, const Params &) -> const char * { return nullptr; },
        true,
    },
    [](const Attention &a, int32_t v_dtype) -> const char * {
      return is_quantised(a.kv_dtype) || is_quantised(v_dtype) ? nullptr : "neither k nor v is quantised";
    },
    [](const QuantisedParams &) -> const char * { return nullptr; },
};
#endif

}  // namespace fa::kernels::append_quantised
