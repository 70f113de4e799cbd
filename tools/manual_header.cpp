// The man page of the library, from fa.h: its introduction becomes sections, its declarations stay unchanged.
#include <fa.h>

#include <algorithm>
#include <cctype>

#include "manual.h"
#include "roff.h"
#include "text.h"

namespace fa::tool {
namespace {

/// A heading of the introduction: a line in capitals, possibly with parentheses behind them.
bool is_heading(std::string_view line) {
  if (line.size() < 4 || !std::isupper(static_cast<unsigned char>(line[0]))) return false;
  const std::string_view title = line.substr(0, line.find(" ("));
  return std::none_of(title.begin(), title.end(), [](unsigned char c) { return std::islower(c) || c == '.'; });
}

/// The introduction's lines, without the comment's frame.
std::vector<std::string> introduction(std::string_view header) {
  const size_t begin = header.find("/*"), end = header.find("*/", begin);
  if (end == header.npos) return {};
  std::vector<std::string> lines = lines_of(header.substr(begin + 2, end - begin - 2));
  for (std::string &line : lines) {
    const size_t star = line.find(" *");
    if (star == 0) line.erase(0, std::min<size_t>(3, line.size()));
  }
  return lines;
}

/// Writes blocks of equal kind at once: indented lines keep their shape, others flow.
class Blocks {
 public:
  explicit Blocks(Roff *roff) : roff_(roff) {}
  ~Blocks() { flush(); }
  Blocks(const Blocks &) = delete;
  Blocks &operator=(const Blocks &) = delete;

  void add(const std::string &line) {
    if (line.find_first_not_of(' ') == line.npos) {
      block_ += block_.empty() ? "" : "\n";
      return;
    }
    const bool shaped = line.starts_with("  ");
    if (shaped != shaped_) flush();
    shaped_ = shaped;
    block_ += line + "\n";
  }

  void flush() {
    while (block_.ends_with("\n\n")) block_.pop_back();
    if (block_.find_first_not_of('\n') != block_.npos) {
      if (shaped_) {
        roff_->verbatim(block_);
      } else {
        roff_->paragraphs(block_);
      }
    }
    block_.clear();
  }

 private:
  Roff *roff_;
  std::string block_;
  bool shaped_ = false;
};

}  // namespace

std::string header_man_page(std::string_view header) {
  Roff roff("libfa", 3);
  roff.section("Name");
  std::string functions;
  for (const std::string &name : functions_of(header)) functions += (functions.empty() ? "" : ", ") + name;
  roff.line(Roff::escaped("libfa, " + functions) + " \\- fused attention (FlashAttention) as a plain C library");
  roff.section("Synopsis");
  roff.line("\\fB#include <fa.h>\\fR");
  roff.paragraphs("cc program.c $(pkg-config --cflags --libs fa)");
  roff.section("Description");
  {
    Blocks blocks(&roff);
    for (const std::string &line : introduction(header)) {
      if (is_heading(line)) {
        blocks.flush();
        roff.section(Roff::escaped(line));
      } else {
        blocks.add(line);
      }
    }
  }
  roff.section("Declarations");
  const size_t begin = header.find("/* ---- constants"), end = header.rfind("#ifdef __cplusplus");
  if (begin != header.npos && end != header.npos && begin < end) roff.verbatim(header.substr(begin, end - begin));
  roff.section("See also");
  roff.line("\\fBfa\\fR(1)");
  return roff.text();
}

std::vector<std::string> functions_of(std::string_view header) {
  std::vector<std::string> names;
  for (const std::string &line : lines_of(header)) {
    if (!line.starts_with("FA_API ")) continue;
    const size_t parenthesis = line.find('(');
    if (parenthesis == line.npos) continue;
    size_t begin = parenthesis;
    while (begin > 0 && (std::isalnum(static_cast<unsigned char>(line[begin - 1])) || line[begin - 1] == '_')) --begin;
    names.push_back(line.substr(begin, parenthesis - begin));
  }
  return names;
}

}  // namespace fa::tool
