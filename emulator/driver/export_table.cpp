// cuGetExportTable: from an identity to a table.
#include "driver/export_table.h"

#include <algorithm>
#include <cstring>

#include "driver/state.h"

namespace fa::emu::driver {
namespace {

struct Registered {
  const char *name;
  ExportId id;
  const void *table;
};

std::vector<Registered> &tables() {
  static auto *const all = new std::vector<Registered>;
  return *all;
}

/// The runtime asks for these first, and does without: an older way to start, and tables of tools.
constexpr ExportId optional_ids[] = {
    {0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e, 0xb9, 0xe2, 0xfb, 0x46, 0x9e, 0x7c, 0x0d, 0xd9},
};

}  // namespace

std::string text_of(const ExportId &id) {
  constexpr const char *digits = "0123456789abcdef";
  std::string text = "{";
  for (size_t i = 0; i < id.size(); i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits[id[i] >> 4];
    text += digits[id[i] & 15];
  }
  return text + "}";
}

void add_export_table(const char *name, const ExportId &id, const void *table) {
  tables().push_back({name, id, table});
}

const void *find_export_table(const ExportId &id) {
  auto found = std::find_if(tables().begin(), tables().end(), [&](const Registered &one) { return one.id == id; });
  return found == tables().end() ? nullptr : found->table;
}

CUresult missing_export(const char *name, const ExportId &id, size_t slot) {
  return report(
      "cuGetExportTable", CUDA_ERROR_NOT_SUPPORTED,
      "slot " + std::to_string(slot) + " of the private table " + name + " " + text_of(id) +
          " was called, which the emulator does not have: the call of the CUDA runtime that needs it fails; the "
          "driver API (cuLibraryLoadData, cuLaunchKernelEx, ...) does without private tables");
}

}  // namespace fa::emu::driver

using namespace fa::emu::driver;

EMU_API CUresult cuGetExportTable(const void **table, const CUuuid *id) {
  return api(
      "cuGetExportTable",
      [&] {
        require(table != nullptr, "no place for the table");
        *table = nullptr;
        require(id != nullptr, "no identity of a table");
        ExportId wanted;
        std::memcpy(wanted.data(), id->bytes, sizeof wanted);
        if (*table = find_export_table(wanted); *table) return CUDA_SUCCESS;
        if (std::find(std::begin(optional_ids), std::end(optional_ids), wanted) != std::end(optional_ids))
          return CUDA_ERROR_NOT_FOUND;
        std::string known;
        for (const Registered &one : tables()) known += std::string(known.empty() ? "" : ", ") + one.name;
        refuse(CUDA_ERROR_NOT_FOUND, "the emulator has no private table " + text_of(wanted) +
                                         "; it has those that the runtimes of CUDA 12 and 13 need: " + known);
      },
      true);
}
