// A man page for each function of fa.h, from its declaration and the comment above it.
#include <algorithm>
#include <cctype>
#include <regex>

#include "text.h"
#include "manual.h"
#include "roff.h"

namespace fa::tool {
namespace {

struct Function {
  std::string declaration;  // without FA_API, with the types above it
  std::string comment;      // paragraphs, with a blank line between
};

/// The text of a comment's line, without the comment's frame.
std::string_view without_frame(std::string_view line) {
  if (line.starts_with("/* ") || line.starts_with(" * ")) line.remove_prefix(3);
  if (line == " *") return "";
  if (line.ends_with(" */")) line.remove_suffix(3);
  return line;
}

Function function_of(std::string_view header, std::string_view name) {
  const std::vector<std::string> lines = lines_of(header);
  const auto declares = [&](const std::string &line) {
    const size_t at = line.find(std::string(name) + "(");
    return line.starts_with("FA_API ") && at != line.npos && (line[at - 1] == ' ' || line[at - 1] == '*');
  };
  const auto first = std::find_if(lines.begin(), lines.end(), declares);
  Function found;
  std::string before;  // types that only this function needs
  for (auto line = first; line != lines.end(); ++line) {
    found.declaration += (line == first ? line->substr(7) : *line) + "\n";
    if (line->ends_with(";")) break;
  }
  auto begin = first;
  while (begin != lines.begin() && !begin->starts_with("/*")) --begin;
  auto end = begin;
  while (end != first && !end->ends_with("*/")) ++end;
  for (auto line = begin; line != first; ++line) {
    if (line <= end) {
      found.comment += std::string(without_frame(*line)) + "\n";
    } else {
      before += *line + "\n";
    }
  }
  found.declaration = before + found.declaration;
  found.comment = std::regex_replace(found.comment, std::regex(R"(\s*\[F\d+\])"), "");  // promises' tags are libfa(3)'s
  return found;
}

/// Takes a sentence out of a text; false where the text lacks it.
bool take(std::string *text, const std::regex &sentence, std::string *taken) {
  std::smatch match;
  if (!std::regex_search(*text, match, sentence)) return false;
  *taken += (taken->empty() ? "" : " ") + match.str(1);
  *text = match.prefix().str() + match.suffix().str();
  return true;
}

/// The first sentence, as the name line of a page has it: on one line, in lower case, without its full stop.
std::string summary_of(const std::string &comment) {
  static const std::regex sentence(R"(^([^]*?)[.:;](\s|$))");
  std::smatch match;
  std::string text = std::regex_search(comment, match, sentence) ? match.str(1) : comment;
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

}  // namespace

std::string function_man_page(std::string_view header, std::string_view name) {
  Function function = function_of(header, name);
  Roff roff(name, 3);
  roff.section("Name");
  roff.line(Roff::escaped(name) + " \\- " + Roff::escaped(summary_of(function.comment)));
  roff.section("Synopsis");
  roff.line("\\fB#include <fa.h>\\fR");
  roff.verbatim(function.declaration);

  std::string notes, errors;
  take(&function.comment, std::regex(R"(\s*(Thread-safe\.))"), &notes);
  take(&function.comment, std::regex(R"(\s*(Since \d+\.\d+\.))"), &notes);
  take(&function.comment, std::regex(R"(\n\s*\nErrors: ([^]*?)\s*$)"), &errors);
  if (errors.empty()) take(&function.comment, std::regex(R"(\s*Errors: ([^]*?)\s*$)"), &errors);
  roff.section("Description");
  roff.paragraphs(function.comment);
  if (!errors.empty()) {
    roff.section("Return value");
    roff.paragraphs("FA_OK (0), or one of the errors below, which fa_last_error() then describes.");
    roff.section("Errors");
    roff.paragraphs(errors);
  }
  if (!notes.empty()) {
    roff.section("Notes");
    roff.paragraphs(notes);
  }
  roff.section("See also");
  roff.line("\\fBlibfa\\fR(3), \\fBfa\\fR(1)");
  return roff.text();
}

}  // namespace fa::tool
