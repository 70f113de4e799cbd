// Help texts and man pages, both made from a command's text and its options as the parser knows them.
#pragma once

#include <string>
#include <string_view>

#include "command.h"

namespace fa::tool {

/// The text of --help: at most 80 columns.
std::string help_text(const Command &command, const Options &options);

/// The man page, section 1, in roff.
std::string man_page(const Command &command, const Options &options);

/// The man page libfa(3), from the text of fa.h: its introduction as sections, then the declarations unchanged.
std::string header_man_page(std::string_view header);

/// The man page of a function in section 3, from its declaration and its comment in fa.h.
std::string function_man_page(std::string_view header, std::string_view name);

/// The names of the functions that a header declares with FA_API.
std::vector<std::string> functions_of(std::string_view header);

}  // namespace fa::tool
