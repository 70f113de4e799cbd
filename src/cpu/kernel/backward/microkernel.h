// The backward pass of one ISA, as the engine sees it.
#pragma once

#include "cpu/kernel/backward/accumulate.h"
#include "cpu/kernel/backward/stage.h"
#include "cpu/kernel/backward/store.h"

namespace fa::cpu::FA_ISA {
namespace {

inline size_t query_bytes(const Attention &a) {
  return header_bytes<BackwardQueryTile> + StagedQueries::bytes(a);
}
inline size_t key_bytes(const Attention &a) {
  return header_bytes<KeyTile> + StagedKeys::bytes(a);
}

constexpr BackwardMicrokernel backward_microkernel = {
    .tile_rows = block_lanes,
    .query_bytes = query_bytes,
    .key_bytes = key_bytes,
    .scratch_bytes = BackwardScratch::bytes,
    .stage_queries = stage_queries,
    .stage_keys = stage_keys,
    .accumulate = accumulate_gradients,
    .sum_scores = sum_scores,
    .store_queries = store_queries,
    .store_keys = store_keys,
};

}  // namespace
}  // namespace fa::cpu::FA_ISA
