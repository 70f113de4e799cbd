// Which code knows which instruction. A family's file registers its mnemonics; nothing else has to know of it:
//
//   bool decode_popc(Decoder &d) { ... }
//   const Registration registration{{"popc", decode_popc}};
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

namespace fa::emu {

class Decoder;

/// Decodes one instruction. False: this form is not mine (another family may have registered the same mnemonic).
using Decode = bool (*)(Decoder &);

struct Registration {
  Registration(std::initializer_list<std::pair<std::string_view, Decode>> decoders);
};

/// All that are registered for a mnemonic ("add": integers, floats, halves).
std::span<const Decode> decoders_of(std::string_view mnemonic);

}  // namespace fa::emu
