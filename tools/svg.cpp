#include "svg.h"

#include <fmt/format.h>

#include "text.h"

namespace fa::tool {

std::string svg_text(const std::string &text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else
      result += c;
  }
  return result;
}

std::string svg_begin(const std::string &of, int64_t width, int64_t height, const std::string &title) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{0}\" role=\"img\" viewBox=\"0 0 {1} {2}\" width=\"{1}\" "
      "height=\"{2}\" font-family=\"system-ui, sans-serif\" font-size=\"10\">\n"
      "<title>{3}</title>\n"
      "<style>.{0} {{ color-scheme: light dark; color: #1f2328 }} @media (prefers-color-scheme: dark) {{ .{0} {{ "
      "color: #e6edf3 }} }}</style>\n",
      of, width, height, svg_text(title));
}

}  // namespace fa::tool
