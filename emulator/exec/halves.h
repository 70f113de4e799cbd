// Tiles of 8 x 8 elements of 16 bits, a row a vector.
#pragma once

#include <cstdint>

namespace fa::emu {

typedef uint16_t Halves __attribute__((vector_size(16)));

/// Interleaving the rows' halves three times makes them columns.
inline void transpose(Halves *rows) {
  Halves next[8];
  for (int stage = 0; stage < 3; stage++) {
    for (int i = 0; i < 4; i++) {
      next[2 * i] = __builtin_shufflevector(rows[i], rows[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      next[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i++) rows[i] = next[i];
  }
}

}  // namespace fa::emu
