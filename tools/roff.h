// Writes roff with the man macros, for the man pages.
#pragma once

#include <string>
#include <string_view>

namespace fa::tool {

class Roff {
 public:
  /// A page of this name and section of the manual.
  Roff(std::string_view name, int section);

  /// Text with roff's own characters taken literally.
  static std::string escaped(std::string_view text);

  void section(std::string_view title);
  void subsection(std::string_view title);

  /// A line of roff, unchanged.
  void line(std::string_view roff);

  /// Plain text; blank lines separate paragraphs.
  void paragraphs(std::string_view text);

  /// A term and its meaning.
  void item(std::string_view term, std::string_view meaning);

  /// Lines that keep their shape.
  void verbatim(std::string_view lines);

  const std::string &text() const { return text_; }

 private:
  void new_paragraph();

  std::string text_;
  bool fresh_ = true;  // the paragraph is still empty
};

}  // namespace fa::tool
