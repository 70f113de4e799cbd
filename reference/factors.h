// Tensors of scales and zeros, from the words that cases have for them.
#pragma once

#include <string>

#include "reference/instance.h"
#include "reference/tensor.h"

namespace reference {

/// A tensor of scales or zeros ("f32:bsh:4") of rows with these dimensions; value(n) is its n-th element.
template <class Value>
Tensor factors_of(const std::string &words, const Tensor::Shape &rows, Layout layout, Guard guard, Value value) {
  if (words.empty()) return {};
  const size_t first = words.find(':'), second = words.find(':', first + 1);
  Tensor::Shape shape = rows;
  for (size_t axis = 0; axis < 3; ++axis)
    if (words.substr(first, second - first).find("bsh"[axis]) == std::string::npos) shape[axis] = 1;
  const int64_t groups = std::stoll(words.substr(second + 1));
  shape[3] = groups > 0 ? groups : rows[3];
  Tensor tensor(shape, dtype_named(words.substr(0, first)), gapped(layout), guard);
  tensor.each([&](int64_t i, int64_t j, int64_t h, int64_t g, int64_t n) { tensor.set(i, j, h, g, value(n)); });
  return tensor;
}

}  // namespace reference
