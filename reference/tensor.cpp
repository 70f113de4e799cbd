#include "reference/tensor.h"

#include <algorithm>
#include <cstring>

#include "reference/codes.h"
#include "reference/number.h"
#include "reference/random.h"

namespace reference {
namespace {

constexpr int pattern = 0xff;

const char *const names[layout_count] = {"bshd",     "bhsd",    "slice",      "padded",    "odd",     "reversed",
                                         "mirrored", "stepped", "transposed", "one_batch", "one_row", "one_head"};

/// The layout of a packed type, whose elements of a row must be adjacent: another one where `layout` separates them.
Layout packed_layout(Layout layout) {
  if (layout == Layout::mirrored) return Layout::reversed;
  if (layout == Layout::stepped) return Layout::slice;
  return layout == Layout::transposed ? Layout::bhsd : layout;
}

/// In elements, or in units.
std::array<int64_t, 4> strides(Tensor::Shape shape, Layout layout) {
  const auto [b, s, h, d] = shape;
  switch (layout) {
    case Layout::bhsd:
      return {h * s * d, d, s * d, 1};
    case Layout::slice:
      return {s * 3 * h * d, 3 * h * d, d, 1};
    case Layout::padded:
      return {s * (h * (d + 3) + 5) + 7, h * (d + 3) + 5, d + 3, 1};
    case Layout::reversed:
      return {-s * h * d, -h * d, -d, 1};
    case Layout::mirrored:
      return {-s * h * d, h * d, d, -1};
    case Layout::stepped:
      return {s * h * d * 2, h * d * 2, d * 2, 2};
    case Layout::transposed:
      return {h * d * s, 1, d * s, s};
    case Layout::one_batch:
      return {0, h * d, d, 1};
    case Layout::one_row:
      return {h * d, 0, d, 1};
    case Layout::one_head:
      return {s * d, d, 0, 1};
    case Layout::bshd:
    case Layout::odd:
      break;
  }
  return {s * h * d, h * d, d, 1};
}

}  // namespace

const char *name_of(Layout layout) {
  return names[int(layout)];
}

Tensor::Tensor(Shape shape, fa_dtype dtype, Layout layout, Guard guard) : shape_(shape) {
  unit_ = unit_elements(dtype), unit_bytes_ = row_bytes(dtype, unit_);
  codes_ = codes_of(dtype) != nullptr;
  Shape units = shape;
  units[3] /= unit_;
  const auto stride = strides(units, unit_ > 1 ? packed_layout(layout) : layout);
  int64_t lowest = 0, highest = 0;
  bool any = true;
  for (size_t axis = 0; axis < 4; ++axis) {
    any = any && shape[axis] > 0;
    const int64_t reach = (units[axis] - 1) * stride[axis];
    (reach < 0 ? lowest : highest) += reach;
    view_.shape[axis] = shape[axis];
    view_.stride[axis] = axis < 3 ? stride[axis] * unit_ : stride[axis];
  }
  view_.dtype = dtype;
  const int64_t lead = layout == Layout::odd ? 1 : 0;
  const int64_t all = any ? highest - lowest + 1 + lead : 0;
  memory_ = GuardedMemory(size_t(all * unit_bytes_), guard);
  clear();
  view_.data = any ? memory_.data() + (lead - lowest) * unit_bytes_ : nullptr;
}

char *Tensor::at(int64_t i, int64_t j, int64_t k, int64_t l) const {
  const int64_t row = i * view_.stride[0] + j * view_.stride[1] + k * view_.stride[2];
  const int64_t units =
      unit_ == 1 ? row + l * view_.stride[3] : row / unit_ + l / unit_ * view_.stride[3];  // divisions take long
  return static_cast<char *>(view_.data) + units * unit_bytes_;
}

double Tensor::get(int64_t i, int64_t j, int64_t k, int64_t l) const {
  return codes_ ? load_code(at(i, j, k, l), view_.dtype, l % unit_) : load(at(i, j, k, l), view_.dtype);
}

void Tensor::set(int64_t i, int64_t j, int64_t k, int64_t l, double x) const {
  if (!codes_) return store(at(i, j, k, l), view_.dtype, x);
  store_code(at(i, j, k, l), view_.dtype, l % unit_, x);
}

void Tensor::set_blocks(const std::function<double(int64_t, int64_t, int64_t, int64_t)> &value) const {
  double x[32];
  each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t) {
    x[l % 32] = value(i, j, k, l);
    if (l % 32 == 31) store_block(at(i, j, k, l), view_.dtype, x);
  });
}

void Tensor::randomise(uint64_t seed, uint64_t stream, double amplitude) const {
  const uint64_t of_stream = hash(hash(seed) ^ stream);  // once: hash(seed, stream, n) is that of this and n
  const auto number = [=](int64_t n) { return amplitude * normal(hash(of_stream ^ uint64_t(n))); };
  if (codes_) return each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t n) { set(i, j, k, l, number(n)); });
  std::vector<double> row(static_cast<size_t>(shape_[3]));
  int64_t n = 0;
  for (int64_t i = 0; i < shape_[0]; ++i)
    for (int64_t j = 0; j < shape_[1]; ++j)
      for (int64_t k = 0; k < shape_[2]; ++k) {
        for (double &x : row) x = number(n++);
        store_each(at(i, j, k, 0), view_.stride[3] * unit_bytes_, view_.dtype, shape_[3], row.data());
      }
}

void Tensor::clear() const {
  if (memory_.size()) std::memset(memory_.data(), pattern, memory_.size());
}

std::vector<char> Tensor::bytes() const {
  return {memory_.data(), memory_.data() + memory_.size()};
}

std::string Tensor::untouched_outside(const std::vector<char> &written, int sequence_axis) const {
  std::vector<char> touchable(memory_.size(), 0);
  const int64_t rows = shape_[size_t(sequence_axis)];
  each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t) {
    const int64_t row = sequence_axis == 1 ? j : k;
    if (!written[size_t(i * rows + row)]) return;
    const char *element = at(i, j, k, l);
    std::fill_n(&touchable[size_t(element - memory_.data())], unit_bytes_, char(1));
  });
  for (size_t byte = 0; byte < touchable.size(); ++byte) {
    if (touchable[byte] || memory_.data()[byte] == char(pattern)) continue;
    return "byte " + std::to_string(byte) + " of " + std::to_string(touchable.size()) +
           ", outside the elements to write, was written";
  }
  return "";
}

}  // namespace reference
