// ELF of CUDA: .nv.info is a list of attributes {format, attribute, size, data}, of which some belong to a symbol.
#include "driver/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

namespace fa::emu::driver {
namespace {

constexpr uint8_t sized_value = 4;  // the format whose data follow; others are four bytes in all
constexpr uint8_t frame_size = 0x11, min_stack_size = 0x12, register_count = 0x2f;

template <class T>
bool read(std::span<const uint8_t> bytes, uint64_t at, T &value) {
  if (at > bytes.size() || bytes.size() - at < sizeof value) return false;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return true;
}

std::span<const uint8_t> part(std::span<const uint8_t> bytes, uint64_t at, uint64_t size) {
  if (at > bytes.size() || bytes.size() - at < size) return {};
  return bytes.subspan(at, size);
}

std::string_view text(std::span<const uint8_t> strings, uint64_t at) {
  if (at >= strings.size()) return {};
  const char *begin = reinterpret_cast<const char *>(strings.data() + at);
  return {begin, strnlen(begin, strings.size() - at)};
}

void read_attributes(std::span<const uint8_t> info, const std::vector<std::string> &symbols, CubinResources &result) {
  for (uint64_t at = 0; at + 4 <= info.size();) {
    uint8_t format = info[at], attribute = info[at + 1];
    uint16_t size = 0;
    read(info, at + 2, size);
    uint32_t symbol = 0, value = 0;
    bool whole = format == sized_value && size >= 8 && read(info, at + 4, symbol) && read(info, at + 8, value);
    if (whole && symbol < symbols.size()) {
      KernelResources &kernel = result[symbols[symbol]];
      if (attribute == register_count) kernel.registers = value, kernel.known = true;
      if (attribute == frame_size || attribute == min_stack_size)
        kernel.stack_bytes = std::max(kernel.stack_bytes, value);
    }
    at += 4 + (format == sized_value ? size : 0);
  }
}

}  // namespace

CubinResources resources_of(std::span<const uint8_t> cubin) {
  CubinResources result;
  Elf64_Ehdr header;
  if (!read(cubin, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return result;
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  for (size_t i = 0; i < sections.size(); i++)
    if (!read(cubin, header.e_shoff + i * header.e_shentsize, sections[i])) return result;
  auto bytes_of = [&](size_t section) {
    if (section >= sections.size() || sections[section].sh_type == SHT_NOBITS) return std::span<const uint8_t>();
    return part(cubin, sections[section].sh_offset, sections[section].sh_size);
  };
  std::vector<std::string> symbols;
  for (size_t i = 0; i < sections.size(); i++) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    auto table = bytes_of(i), strings = bytes_of(sections[i].sh_link);
    Elf64_Sym symbol;
    for (uint64_t at = 0; read(table, at, symbol); at += sizeof symbol)
      symbols.emplace_back(text(strings, symbol.st_name));
  }
  auto names = bytes_of(header.e_shstrndx);
  for (size_t i = 0; i < sections.size(); i++)
    if (text(names, sections[i].sh_name) == ".nv.info") read_attributes(bytes_of(i), symbols, result);
  return result;
}

}  // namespace fa::emu::driver
