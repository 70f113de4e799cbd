// The table of mnemonics, filled before main by the families' Registrations.
#include "exec/registry.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace fa::emu {
namespace {

auto &table() {
  static std::unordered_map<std::string_view, std::vector<Decode>> decoders;
  return decoders;
}

}  // namespace

Registration::Registration(std::initializer_list<std::pair<std::string_view, Decode>> decoders) {
  for (const auto &[mnemonic, decode] : decoders) table()[mnemonic].push_back(decode);
}

std::span<const Decode> decoders_of(std::string_view mnemonic) {
  auto found = table().find(mnemonic);
  return found == table().end() ? std::span<const Decode>() : std::span<const Decode>(found->second);
}

}  // namespace fa::emu
