#include "mask_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "svg.h"

namespace fa::tool {
namespace {

constexpr int64_t left = 40, top = 34, title_height = 16, margin = 8, sink_gap = 8;
constexpr int64_t large_cell = 22;  // one with its weight in numbers

class Svg {
 public:
  explicit Svg(const Drawing &drawing) : drawing_(drawing) {
    const MaskPanel &panel = drawing.panels.front();
    const int64_t largest = std::max(panel.queries, panel.keys);
    cell_ = largest <= 24 ? large_cell : largest <= 64 ? 12 : largest <= 128 ? 7 : 4;
    step_ = cell_ == large_cell ? 1 : largest <= 64 ? 4 : largest <= 128 ? 8 : 16;
    keys_x_ = left + (panel.sinks.empty() ? 0 : cell_ + sink_gap);
    keys_y_ = top + (panel.title.empty() ? 0 : title_height);
    width_ = keys_x_ + panel.keys * cell_ + margin;
    height_ = keys_y_ + panel.queries * cell_ + margin;
  }

  std::string text() {
    const int64_t count = static_cast<int64_t>(drawing_.panels.size());
    const int64_t rows = (count + drawing_.columns - 1) / drawing_.columns;
    const int64_t width = width_ * drawing_.columns, height = height_ * rows;
    text_ = svg_begin("fa-mask", width, height, drawing_.title);
    for (int64_t i = 0; i < count; ++i) {
      text_ += fmt::format("<g transform=\"translate({} {})\" fill=\"currentColor\">\n", i % drawing_.columns * width_,
                           i / drawing_.columns * height_);
      add_labels(drawing_.panels[static_cast<size_t>(i)]);
      add_cells(drawing_.panels[static_cast<size_t>(i)]);
      text_ += "</g>\n";
    }
    return text_ + "</svg>\n";
  }

 private:
  void add_text(const char *of, double x, int64_t y, const char *anchor, const std::string &text) {
    text_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", of, x, y, anchor, text);
  }

  void add_labels(const MaskPanel &panel) {
    const double middle = 0.5 * static_cast<double>(cell_ - 1);
    if (!panel.title.empty()) add_text("title", left, title_height - 4, "start", svg_text(panel.title));
    add_text("axis", static_cast<double>(keys_x_), keys_y_ - 20, "start", "keys");
    text_ += fmt::format(
        "<text class=\"axis\" x=\"12\" y=\"{}\" text-anchor=\"end\" transform=\"rotate(-90 12 {})\">"
        "queries</text>\n",
        keys_y_, keys_y_);
    if (!panel.sinks.empty()) add_text("axis", left + middle, keys_y_ - 6, "middle", "sink");
    for (int64_t j = 0; j < panel.keys; j += step_)
      add_text("place", static_cast<double>(keys_x_ + j * cell_) + middle, keys_y_ - 6, "middle", fmt::format("{}", j));
    for (int64_t i = 0; i < panel.queries; i += step_)
      add_text("place", left - 6, keys_y_ + i * cell_ + cell_ / 2 + 3, "end", fmt::format("{}", i));
  }

  /// A cell that has this part of the largest weight of its row. Under numbers the color is never full, so that text is
  /// legible on it.
  void add_cell(const char *of, int64_t x, int64_t y, bool shown, double part, double weight) {
    const int64_t side = cell_ - 1;
    const std::string kind = shown ? fmt::format("class=\"{}\" fill=\"#00897b\" fill-opacity=\"{:.2f}\"", of,
                                                 0.15 + (drawing_.weighted ? 0.6 : 0.85) * part)
                                   : "class=\"hidden\" fill-opacity=\"0.1\"";
    paths_[kind] += fmt::format("M{} {}h{}v{}h-{}z", x, y, side, side, side);
    if (shown && drawing_.weighted && cell_ == large_cell)
      numbers_ +=
          fmt::format("<text class=\"weight\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{:.0f}</text>\n",
                      static_cast<double>(x) + 0.5 * static_cast<double>(side), y + cell_ / 2 + 3, 100 * weight);
  }

  void add_cells(const MaskPanel &panel) {
    paths_.clear();
    numbers_.clear();
    for (int64_t i = 0; i < panel.queries; ++i) {
      if (!panel.computed[static_cast<size_t>(i)]) continue;
      const auto first = panel.weights.begin() + i * panel.keys;
      const double sink = panel.sinks.empty() ? 0 : panel.sinks[static_cast<size_t>(i)];
      const double largest = std::max(sink, *std::max_element(first, first + panel.keys));
      const auto part = [&](double weight) { return largest > 0 ? weight / largest : 0; };
      const int64_t y = keys_y_ + i * cell_;
      if (!panel.sinks.empty()) add_cell("sink", left, y, true, part(sink), sink);
      for (int64_t j = 0; j < panel.keys; ++j) {
        add_cell("attended", keys_x_ + j * cell_, y, panel.attended[static_cast<size_t>(i * panel.keys + j)] != 0,
                 part(first[j]), first[j]);
      }
    }
    for (const auto &[kind, cells] : paths_) text_ += fmt::format("<path {} d=\"{}\"/>\n", kind, cells);
    text_ += numbers_;
  }

  const Drawing &drawing_;
  int64_t cell_, step_;  // the side of a square with its gap; labels on every step-th
  int64_t keys_x_, keys_y_, width_, height_;
  std::string text_, numbers_;
  std::map<std::string, std::string> paths_;  // by appearance
};

}  // namespace

std::string mask_svg(const Drawing &drawing) {
  return Svg(drawing).text();
}

}  // namespace fa::tool
