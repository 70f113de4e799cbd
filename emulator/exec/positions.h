// Where the warps of running blocks are, for people who wonder why a launch takes so long.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fa::emu {

/// One block: its number in the grid, its index, and its warps by where they are.
struct BlockPosition {
  uint64_t number = 0;
  uint32_t block[3] = {0, 0, 0};
  std::string warps;  // "warps 0-2 at line 30 (bra); warp 3 waits at line 12 (bar.sync)"
};

/// "0-3, 7" for the bits of a mask.
std::string list_of(uint32_t mask);

/// One line for all blocks in the same state, in the order of blocks: "blocks (0,0,0), (1,0,0) and 14 more: warps ...".
std::vector<std::string> describe(std::vector<BlockPosition> positions);

}  // namespace fa::emu
