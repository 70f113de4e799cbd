// The picture of `fa draw` as SVG: a square for each query and key.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fa::tool {

/// A head of a sequence, or of packed sequences together.
struct MaskPanel {
  std::string title;  // "sequence 0, head 1"; "" where it is the only one
  int64_t queries = 0, keys = 0;
  std::vector<char> computed;   // queries: whether the row is a used one
  std::vector<char> attended;   // queries x keys
  std::vector<double> weights;  // queries x keys
  std::vector<double> sinks;    // queries: the weight of the sink; empty without sinks
};

struct Drawing {
  std::string title;
  std::vector<MaskPanel> panels;
  int64_t columns = 1;    // panels next to each other
  bool weighted = false;  // weights of a row differ, so they are shown
};

/// Legible on light and dark ground: squares of weights have their color, all else that of text.
std::string mask_svg(const Drawing &drawing);

}  // namespace fa::tool
