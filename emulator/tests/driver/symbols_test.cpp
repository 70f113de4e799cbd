// The library's symbols and the list of cuGetProcAddress: neither has symbols that the other lacks, and a program gets
// the version of every function that its time had.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstring>
#include <set>
#include <string_view>

#include "fixture.h"

namespace {

using namespace emulated;

struct Row {
  const char *name;
  int since;
  const char *symbol, *per_thread;
};
constexpr Row rows[] = {
#define EMU_FUNCTION(name, since, symbol, per_thread) {#name, since, #symbol, per_thread},
#include "driver/functions.inc"
#undef EMU_FUNCTION
};

/// Names of functions in the dynamic symbol table of the library that the program has loaded.
std::set<std::string> exported() {
  link_map *map = nullptr;
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  EXPECT_EQ(dlinfo(library, RTLD_DI_LINKMAP, static_cast<void *>(&map)), 0);
  const std::string file = read_file(map->l_name);
  dlclose(library);
  auto at = [&](uint64_t offset, auto &into) { std::memcpy(&into, file.data() + offset, sizeof into); };
  Elf64_Ehdr header;
  at(0, header);
  std::set<std::string> names;
  for (uint64_t s = 0; s < header.e_shnum; s++) {
    Elf64_Shdr section, text;
    at(header.e_shoff + s * header.e_shentsize, section);
    if (section.sh_type != SHT_DYNSYM) continue;
    at(header.e_shoff + section.sh_link * header.e_shentsize, text);
    for (uint64_t i = 0; i < section.sh_size / sizeof(Elf64_Sym); i++) {
      Elf64_Sym symbol;
      at(section.sh_offset + i * sizeof symbol, symbol);
      bool is_function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF;
      if (is_function) names.insert(file.c_str() + text.sh_offset + symbol.st_name);
    }
  }
  return names;
}

struct Found {
  void *function = nullptr;
  int status = -1;
};
Found ask(const char *name, int version, uint64_t flags) {
  Found result;
  EXPECT_EQ(call("cuGetProcAddress_v2", name, &result.function, version, flags, &result.status), CUDA_SUCCESS);
  return result;
}

TEST(Symbols, TheListNamesAllThatIsExportedAndNothingElse) {
  std::set<std::string> listed;
  for (const Row &row : rows) {
    listed.insert(row.symbol);
    if (*row.per_thread) listed.insert(std::string(row.symbol) + row.per_thread);
  }
  std::set<std::string> names = exported();
  EXPECT_GT(names.size(), 250u);
  for (const std::string &name : listed) EXPECT_TRUE(names.count(name)) << name << " is listed, but not exported";
  for (const std::string &name : names) EXPECT_TRUE(listed.count(name)) << name << " is exported, but not listed";
}

TEST(Symbols, EachVersionIsFoundSinceItIsThere) {
  constexpr int found = 0, too_low = 2;
  constexpr uint64_t legacy = 1, per_thread = 2;
  for (size_t i = 0; i < std::size(rows); i++) {
    const Row &row = rows[i];
    SCOPED_TRACE(std::string(row.name) + " of " + std::to_string(row.since));
    for (uint64_t flags : {uint64_t{0}, legacy, per_thread}) {
      std::string symbol = row.symbol;
      if (flags == per_thread) symbol += row.per_thread;
      Found result = ask(row.name, row.since, flags);
      EXPECT_EQ(result.status, found);
      EXPECT_EQ(result.function, function(symbol.c_str())) << symbol;
      Found before = ask(row.name, row.since - 1, flags);
      bool has_older = i + 1 < std::size(rows) && std::string_view(rows[i + 1].name) == row.name;
      EXPECT_EQ(before.status, has_older ? found : too_low);
      EXPECT_NE(before.function, result.function);
    }
  }
}

TEST(Symbols, RowsOfANameAreAdjacentNewestFirst) {
  std::set<std::string_view> seen;
  for (size_t i = 0; i < std::size(rows); i++) {
    if (i > 0 && std::string_view(rows[i - 1].name) == rows[i].name) {
      EXPECT_GT(rows[i - 1].since, rows[i].since) << rows[i].name;
    } else {
      EXPECT_TRUE(seen.insert(rows[i].name).second) << rows[i].name;
    }
  }
}

TEST(Symbols, UnknownNames) {
  constexpr int no_symbol = 1;
  for (const char *name : {"cuNothing", "cuMemAlloc_v2", ""}) {
    Found result = ask(name, 13000, 0);
    EXPECT_EQ(result.function, nullptr);
    EXPECT_EQ(result.status, no_symbol);
  }
  void *function = nullptr;
  EXPECT_EQ(call("cuGetProcAddress_v2", "cuInit", &function, 13000, uint64_t{3}, static_cast<int *>(nullptr)),
            CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
