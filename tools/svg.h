// Parts that the pictures of `fa draw`, `fa explain` and `fa bench` share.
#pragma once

#include <cstdint>
#include <string>

namespace fa::tool {

/// A text as the contents of an element: of others' making, perhaps, such as a name in a file.
std::string svg_text(const std::string &text);

/// The beginning of a picture of these pixels, legible on light and dark ground: currentColor is the color of text.
std::string svg_begin(const std::string &of, int64_t width, int64_t height, const std::string &title);

}  // namespace fa::tool
