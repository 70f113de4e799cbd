// The tiles of every family, SM, dimension and entry point, from the kernels' own tables, as a Python dictionary.
#include <cstdio>
#include <initializer_list>

#include "combine/tiles.h"
#include "mma/tiles.h"
#include "simt/tiles.h"

using namespace fa::kernels;

static void print(const char *family, int sm, int dim, Entry entry, const Tile &tile, int stages) {
  if (tile.rows == 0) return;
  std::printf("('%s', %d, %d, '%s'): (%d, %d, %d, %d, %d),\n", family, sm, dim, name_of(entry), tile.rows, tile.keys,
              tile.threads, tile.shared_bytes, stages);
}

int main() {
  std::puts("{");
  for (const int sm : {75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121}) {
    for (const Entry entry : {Entry::forward, Entry::general, Entry::split, Entry::decode, Entry::combine}) {
      for (const int dim : {32, 64, 96, 128, 192, 256})
        print("mma", sm, dim, entry, mma::tile(sm, dim, entry), mma::shape(sm, dim, entry).stages);
      for (const int dim : {64, 128, 256, 576}) print("simt", sm, dim, entry, simt::tile(sm, dim, entry), 1);
      print("combine", sm, 576, entry, combine::tile(sm, 576, entry), 0);
    }
  }
  std::puts("}");
}
