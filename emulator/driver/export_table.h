// The driver's private tables: functions that NVIDIA's runtime (libcudart) takes from the driver by cuGetExportTable,
// in addition to the public API. Neither tables nor slots are documented: the slots here are those that the runtimes of
// CUDA 12 and 13 were seen to call. A file describes its table and fills the slots that it knows:
//
//   struct Interface {
//     static constexpr const char *name = "CUDART_INTERFACE";
//     static constexpr ExportId id = {0x6b, 0xd5, ...};
//     static constexpr size_t words = 13;  // as many as in NVIDIA's driver
//     static constexpr bool sized = true;  // the first word is the table's size in bytes
//   };
//   const ExportTable<Interface> table({{2, address_of(get_primary_context)}, ...});
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "driver/api.h"

namespace fa::emu::driver {

using ExportId = std::array<uint8_t, 16>;

/// As it is usually written: {6bd5fb6c-5bf4-e74a-8987-d93912fd9df9}.
std::string text_of(const ExportId &id);
/// Makes a table known to cuGetExportTable.
void add_export_table(const char *name, const ExportId &id, const void *table);
/// The table, or null.
const void *find_export_table(const ExportId &id);
/// Says which function of a table is missing; returns the error that goes to the runtime.
CUresult missing_export(const char *name, const ExportId &id, size_t slot);

template <class Result, class... Arguments>
const void *address_of(Result (*function)(Arguments...)) {
  return reinterpret_cast<const void *>(function);
}

/// Slots that nobody fills report themselves when they are called.
template <class Description>
class ExportTable {
 public:
  struct Slot {
    size_t index;
    const void *function;
  };
  explicit ExportTable(std::initializer_list<Slot> known) {
    fill(std::make_index_sequence<Description::words>());
    if (Description::sized) words_[0] = reinterpret_cast<const void *>(sizeof words_);
    for (const Slot &slot : known) words_[slot.index] = slot.function;
    add_export_table(Description::name, Description::id, words_.data());
  }
  ExportTable(const ExportTable &) = delete;
  ExportTable &operator=(const ExportTable &) = delete;
  const void *address() const { return words_.data(); }

 private:
  // Whatever the arguments are, who calls removes them: so it is in the calling conventions of Linux.
  template <size_t slot>
  static CUresult missing() {
    return missing_export(Description::name, Description::id, slot);
  }
  template <size_t... slots>
  void fill(std::index_sequence<slots...>) {
    ((words_[slots] = address_of(missing<slots>)), ...);
  }
  std::array<const void *, Description::words> words_;
};

}  // namespace fa::emu::driver
