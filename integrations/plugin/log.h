// Lines of a plug-in on the standard error: "libfa: ggml: TEXT".
#pragma once
#include <string>

namespace fa_plugin {

void print(const std::string &text);

// The same where FA_VERBOSE enables messages, as in the library: one line for each text, as hosts ask for a node of a
// graph more than once.
void print_once(const std::string &text);

}  // namespace fa_plugin
