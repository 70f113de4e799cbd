// The word that a person may have meant.
#pragma once

#include <string>
#include <vector>

namespace fa::tool {

/// "; did you mean X?" for the nearest of the names, "" when none is near. What follows an '=' in the word does not
/// count.
std::string suggestion(const std::string &word, const std::vector<std::string> &names);

}  // namespace fa::tool
