// The tiles of every family, SM, dimension and entry point, from the kernels' tables, as a Python dictionary.
#include <cstdio>

#include "families.h"

using namespace fa::kernels;

static void print(const char *name, const Family &family, int dim) {
  for (const Arch &arch : archs)
    for (int i = 0; i < entry_count; i++) {
      const TileConfig tile = family.tile(arch, dim, Entry(i));
      if (tile.rows == 0) continue;
      std::printf("('%s', %d, %d, '%s'): (%d, %d, %d, %d, %d),\n", name, arch.number, dim, name_of(Entry(i)), tile.rows,
                  tile.keys, tile.threads, tile.shared_bytes, tile.stages);
    }
}

int main() {
  std::puts("{");
#define FA_FAMILY(operation, name, dtype, needs, ...) \
  for (const int dim : {__VA_ARGS__}) print(#name, name::family, dim);
#include "families.inc"
  std::puts("}");
}
