// A trunk from the question downwards, a branch to each group of kernels, reasons behind them.
#include <fmt/format.h>

#include <algorithm>

#include "decision.h"
#include "svg.h"

namespace fa::tool {
namespace {

constexpr int64_t width = 760, trunk = 14, step = 22, box_height = 20, line_height = 13, name_width = 196;
constexpr size_t reason_columns = 84;  // of a line, at most

/// Lines of words.
std::vector<std::string> wrapped(const std::string &text) {
  std::vector<std::string> lines(1);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > reason_columns) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
    at = end + 1;
  }
  return lines;
}

class Tree {
 public:
  explicit Tree(const Decision &decision) : decision_(decision) {}

  std::string text() {
    add_box("question", 0, decision_.question, "fill-opacity=\"0.08\"",
            8 * static_cast<int64_t>(decision_.question.size()));
    y_ += box_height + 10;
    for (const Branch &branch : decision_.branches) add_branch(branch);
    if (!decision_.failure.empty()) {
      for (const std::string &line : wrapped("nothing runs it: " + decision_.failure)) {
        add_text("failure", 0, line, "");
        y_ += line_height;
      }
    }
    if (last_ > 0)
      body_ += fmt::format("<path d=\"M{} {}V{}\" fill=\"none\" stroke=\"currentColor\"/>\n", trunk, box_height, last_);
    return svg_begin("fa-decision", width, y_ + 4, "The choice of a kernel: " + decision_.question) +
           "<g fill=\"currentColor\">\n" + body_ + "</g>\n</svg>\n";
  }

 private:
  void add_text(const char *of, int64_t x, const std::string &text, const char *style) {
    body_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\" {}>{}</text>\n", of, x, y_ + 14, style, svg_text(text));
  }

  void add_box(const char *of, int64_t x, const std::string &text, const char *fill, int64_t box_width) {
    body_ += fmt::format(
        "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" {} stroke=\"currentColor\" "
        "stroke-opacity=\"0.5\"/>\n",
        of, x, y_, std::min(box_width, width - x - 1), box_height, fill);
    add_text(of, x + 8, text, "font-weight=\"600\"");
  }

  /// From a vertical line to the box at the height of now.
  void connect(int64_t from, int64_t to) {
    body_ +=
        fmt::format("<path d=\"M{} {}H{}\" fill=\"none\" stroke=\"currentColor\"/>\n", from, y_ + box_height / 2, to);
  }

  void add_branch(const Branch &branch) {
    int64_t stem = trunk;
    const int64_t begin = y_ + box_height;
    int64_t end = 0;
    if (!branch.condition.empty()) {
      connect(trunk, trunk + step - 4);
      last_ = y_ + box_height / 2;
      add_text("condition", trunk + step, branch.condition, "font-style=\"italic\"");
      y_ += box_height + 4;
      stem += step;
    }
    for (const Candidates &c : branch.candidates) {
      connect(stem, stem + step);
      end = y_ + box_height / 2;
      add_candidates(c, stem + step);
    }
    if (end == 0) return;
    if (stem == trunk)
      last_ = end;
    else
      body_ += fmt::format("<path d=\"M{} {}V{}\" fill=\"none\" stroke=\"currentColor\"/>\n", stem, begin, end);
    y_ += 6;
  }

  void add_candidates(const Candidates &c, int64_t x) {
    const std::string more = c.kernels.size() > 1 ? fmt::format(" and {} more", c.kernels.size() - 1) : "";
    const std::string name = c.kernels.front() + more;
    const int64_t box = std::max(name_width, 7 * static_cast<int64_t>(name.size()));
    if (c.chosen)
      add_box("chosen", x, name, "fill=\"#00897b\" fill-opacity=\"0.35\"", box);
    else
      add_box("skipped", x, name, "fill-opacity=\"0\"", box);
    const std::vector<std::string> lines =
        wrapped(c.chosen ? "chosen" + (c.reason.empty() ? "" : ": " + c.reason) : c.reason);
    const int64_t top = y_;
    for (const std::string &line : lines) {
      add_text("reason", x + box + 10, line, "");
      y_ += line_height;
    }
    y_ = std::max(top + box_height, y_) + 6;
  }

  const Decision &decision_;
  std::string body_;
  int64_t y_ = 1, last_ = 0;  // of the next box; of the trunk's end
};

}  // namespace

std::string decision_svg(const Decision &decision) {
  return Tree(decision).text();
}

}  // namespace fa::tool
