// Nearest by single-letter edits.
#include "suggestion.h"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace fa::tool {
namespace {

/// The number of single-letter edits from a to b.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string suggestion(const std::string &word, const std::vector<std::string> &names) {
  const std::string given = word.substr(0, word.find('='));
  std::string best;
  // More than two edits, or one for each three letters, are another word.
  const size_t letters = given.size() - std::min(given.size(), given.find_first_not_of('-'));
  size_t best_distance = std::clamp<size_t>(letters / 3, 1, 2) + 1;
  for (const std::string &name : names) {
    const size_t distance = edit_distance(given, name);
    if (distance < best_distance) best = name, best_distance = distance;
  }
  return best.empty() ? "" : "; did you mean " + best + "?";
}

}  // namespace fa::tool
