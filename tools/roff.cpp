// Escapes text that roff would read as a command, and keeps the macros' order that man(7) asks for.
#include "roff.h"

#include <fa.h>
#include <fmt/format.h>

#include <algorithm>

namespace fa::tool {
namespace {

std::string upper(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::toupper(c); });
  return result;
}

/// Calls visit with each line, without its newline.
template <class Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

Roff::Roff(std::string_view name, int section) {
  text_ = fmt::format(".TH {} {} \"\" \"libfa {}\" \"libfa\"\n", escaped(upper(name)), section, FA_VERSION_STRING);
}

std::string Roff::escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if (c == '\'') {
      result += "\\(aq";
    } else if (c == '`') {
      result += "\\(ga";
    } else if (c == '^') {
      result += "\\(ha";
    } else if (c == '~') {
      result += "\\(ti";
    } else {
      if (c == '.' && (result.empty() || result.back() == '\n')) result += "\\&";
      result += c;
    }
  }
  return result;
}

void Roff::section(std::string_view title) {
  text_ += fmt::format(".SH {}\n", upper(title));
  fresh_ = true;
}

void Roff::subsection(std::string_view title) {
  text_ += fmt::format(".SS {}\n", title);
  fresh_ = true;
}

void Roff::line(std::string_view roff) {
  text_ += fmt::format("{}\n", roff);
  fresh_ = false;
}

void Roff::new_paragraph() {
  if (!fresh_) text_ += ".PP\n";
  fresh_ = true;
}

void Roff::paragraphs(std::string_view text) {
  new_paragraph();
  for_each_line(text, [&](std::string_view each) {
    if (each.empty()) {
      new_paragraph();
    } else {
      line(escaped(each));
    }
  });
}

void Roff::item(std::string_view term, std::string_view meaning) {
  text_ += fmt::format(".TP\n.B {}\n{}\n", escaped(term), escaped(meaning));
  fresh_ = false;
}

void Roff::verbatim(std::string_view lines) {
  new_paragraph();
  text_ += ".RS 4\n.nf\n";
  for_each_line(lines, [&](std::string_view each) { text_ += escaped(each) + "\n"; });
  text_ += ".fi\n.RE\n";
  fresh_ = false;
}

}  // namespace fa::tool
