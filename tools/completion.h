// The completions of `fa` in shells: made from the commands' options, as the help texts and the man pages are.
#pragma once

#include <string>

namespace fa::tool {

/// For bash; needs nothing of the package bash-completion but that it loads the file.
std::string bash_completion();

/// For zsh, the autoloaded function _fa.
std::string zsh_completion();

/// For fish.
std::string fish_completion();

}  // namespace fa::tool
