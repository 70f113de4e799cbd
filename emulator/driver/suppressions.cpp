// Reading and matching patterns.
#include "driver/suppressions.h"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace fa::emu::driver {
namespace {

bool fits(const std::string &pattern, const std::string &text) {
  return pattern.empty() || fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

/// "a.cuh:1, inlined at b.cuh:2, c.cu:3": whether the pattern fits one of them.
bool fits_one(const std::string &pattern, std::string_view places) {
  if (pattern.empty()) return true;
  constexpr std::string_view call = "inlined at ";
  while (!places.empty()) {
    std::string_view one = places.substr(0, places.find(", "));
    places.remove_prefix(std::min(places.size(), one.size() + 2));
    if (one.starts_with(call)) one.remove_prefix(call.size());
    if (fits(pattern, std::string(one))) return true;
  }
  return false;
}

/// "120" or "120-140".
bool read_lines(std::string_view text, Suppression &into) {
  const char *end = text.data() + text.size();
  auto [behind, error] = std::from_chars(text.data(), end, into.first_line);
  if (error != std::errc()) return false;
  into.last_line = into.first_line;
  if (behind == end) return true;
  if (*behind != '-') return false;
  auto [last, wrong] = std::from_chars(behind + 1, end, into.last_line);
  return wrong == std::errc() && last == end && into.first_line <= into.last_line;
}

bool read_word(std::string_view word, Suppression &into) {
  size_t colon = word.find(':');
  if (colon == std::string_view::npos || colon + 1 == word.size()) return false;
  std::string_view name = word.substr(0, colon), pattern = word.substr(colon + 1);
  if (name == "line") return read_lines(pattern, into);
  for (auto [known, place] : {std::pair("kernel", &into.kernel), std::pair("class", &into.what),
                              std::pair("source", &into.source), std::pair("ptx", &into.ptx)})
    if (name == known) return *place = pattern, true;
  return false;
}

}  // namespace

bool Suppression::matches(const Finding &finding) const {
  const Fault &first = finding.first;
  auto line = finding.lines.lower_bound(first_line);
  return fits(what, std::string(class_of(finding.what).name)) && line != finding.lines.end() && *line <= last_line &&
         (fits(ptx, first.ptx_text) || fits(ptx, finding.other_ptx)) &&
         (fits_one(source, first.source) || fits_one(source, finding.other_source)) &&
         (fits(kernel, first.kernel) || fits(kernel, readable_name(first.kernel)));
}

std::vector<Suppression> read_suppressions(const std::string &file, std::vector<std::string> &errors) {
  std::vector<Suppression> result;
  std::ifstream in(file);
  if (!in) errors.push_back("FA_EMU_SUPPRESS: '" + file + "' cannot be read");
  std::string line;
  for (uint32_t number = 1; std::getline(in, line); number++) {
    std::istringstream words(line.substr(0, line.starts_with('#') ? 0 : line.find(" #")));
    Suppression one;
    one.number = number;
    std::string word;
    bool makes_sense = true;
    while (makes_sense && words >> word) {
      one.text += (one.text.empty() ? "" : " ") + word;
      makes_sense = read_word(word, one);
    }
    if (!makes_sense)
      errors.push_back("FA_EMU_SUPPRESS: " + file + ", line " + std::to_string(number) + ": '" + word +
                       "' is not a pattern, such as class:race, kernel:*attention*, source:*softmax.h:12?, "
                       "ptx:*st.shared*, line:17 or line:120-140");
    else if (!one.text.empty())
      result.push_back(std::move(one));
  }
  return result;
}

}  // namespace fa::emu::driver
