#include "mask.h"

#include <algorithm>
#include <array>

namespace fa_ggml {
namespace {

constexpr uint16_t hidden = 0xFC00;  // -inf
constexpr int64_t longest = 2048;    // up to here binary16 has every integer

// The binary16 of -d, for d up to 2048.
uint16_t minus(int64_t d) {
  if (d == 0) return 0;
  int exponent = 0;
  while ((d >> (exponent + 1)) != 0) ++exponent;
  const int64_t fraction = exponent <= 10 ? (d << (10 - exponent)) & 0x3FF : (d >> (exponent - 10)) & 0x3FF;
  return uint16_t(0x8000 | ((exponent + 15) << 10) | fraction);
}

// minus(2048), minus(2047), ..., minus(0): a row's attended part is the end of this array.
const std::array<uint16_t, longest + 1> &distances() {
  static const auto table = [] {
    std::array<uint16_t, longest + 1> made;
    for (int64_t d = 0; d <= longest; ++d) made[longest - d] = minus(d);
    return made;
  }();
  return table;
}

bool all(const uint16_t *from, const uint16_t *to, uint16_t value) {
  while (from < to) {
    const uint16_t *end = from + std::min<int64_t>(to - from, 256);
    uint16_t differ = 0;
    for (; from < end; ++from) differ |= *from ^ value;
    if (differ) return false;
  }
  return true;
}

struct Span {
  int64_t begin, end;
};

// From the first attended key of a row to behind its last.
Span attended(const uint16_t *row, int64_t keys) {
  Span span = {0, keys};
  while (span.begin < span.end && row[span.begin] == hidden) ++span.begin;
  while (span.end > span.begin && row[span.end - 1] == hidden) --span.end;
  return span;
}

// One sequence's plane: row i attends keys max(left, lower + i) .. min(used, upper + i) - 1 where these move.
struct Plane {
  int64_t left, used, lower, upper;
  bool lower_moves, upper_moves, distances;

  Span row(int64_t i) const {
    return {lower_moves ? std::max(left, lower + i) : left, upper_moves ? std::min(used, upper + i) : used};
  }
};

// The mask that the first and the last row make possible.
bool guess(const uint16_t *data, const Mask &mask, Plane *plane) {
  const int64_t last_row = mask.queries - 1;
  const Span first = attended(data, mask.keys), last = attended(data + last_row * mask.keys, mask.keys);
  if (first.begin == first.end || last.begin == last.end || last.begin < first.begin || last.end < first.end)
    return false;
  plane->left = first.begin;
  plane->used = last.end;
  plane->lower = last.begin - last_row;
  plane->upper = first.end;
  plane->lower_moves = last.begin > first.begin;
  plane->upper_moves = last.end > first.end;
  plane->distances = data[last_row * mask.keys + last.begin] != 0;
  if (plane->lower_moves && !plane->upper_moves) return false;
  // Distances count from the last attended key.
  return !plane->distances || mask.queries == 1 || (plane->upper_moves && last.end == first.end + last_row);
}

bool holds(const Plane &plane, const uint16_t *data, const Mask &mask) {
  for (int64_t i = 0; i < mask.queries; ++i) {
    const uint16_t *row = data + i * mask.keys;
    const Span span = plane.row(i);
    if (span.begin >= span.end) return false;
    if (!all(row, row + span.begin, hidden) || !all(row + span.end, row + mask.keys, hidden)) return false;
    if (!plane.distances) {
      if (!all(row + span.begin, row + span.end, 0)) return false;
    } else if (span.end - span.begin > longest + 1 ||
               !std::equal(row + span.begin, row + span.end, distances().end() - (span.end - span.begin))) {
      return false;
    }
  }
  return true;
}

// All sequences have one fa_desc: a plane whose rows reach no end that moves is causal or windowed from far away, where
// it can be.
bool combine(const std::vector<Plane> &planes, int64_t queries, Pattern *pattern) {
  const auto any = [&](bool Plane::*field) {
    return std::any_of(planes.begin(), planes.end(), [&](const Plane &plane) { return plane.*field; });
  };
  pattern->alibi = any(&Plane::distances);
  pattern->causal = pattern->alibi || any(&Plane::upper_moves);
  for (const Plane &plane : planes) {
    if (plane.lower_moves) pattern->window_left = plane.upper - 1 - plane.lower;
  }
  for (const Plane &plane : planes) {
    if (plane.distances != pattern->alibi) return false;
    const int64_t offset = plane.upper - 1 - plane.left;  // of query 0's last key, from `left` on
    const int64_t window = plane.lower_moves ? plane.upper - 1 - plane.lower : -1;
    if (plane.lower_moves ? window != pattern->window_left
                          : pattern->window_left >= 0 && offset + queries - 1 > pattern->window_left) {
      return false;
    }
    pattern->leftpad.push_back(int32_t(plane.left));
    pattern->used.push_back(int32_t(plane.used));
    pattern->offset.push_back(int32_t(offset));
  }
  return true;
}

}  // namespace

bool recognise(const Mask &mask, bool alibi, Pattern *pattern) {
  *pattern = {};
  if (mask.queries == 0 || mask.keys == 0 || mask.keys > INT32_MAX - mask.queries) return false;
  std::vector<Plane> planes;
  const int64_t distinct = mask.plane == 0 ? std::min<int64_t>(mask.sequences, 1) : mask.sequences;
  for (int64_t s = 0; s < distinct; ++s) {
    const uint16_t *data = mask.data + s * mask.plane;
    Plane plane;
    if (!guess(data, mask, &plane) || (plane.distances && !alibi) || !holds(plane, data, mask)) return false;
    planes.push_back(plane);
  }
  if (planes.empty()) return false;
  planes.resize(mask.sequences, planes.front());
  return combine(planes, mask.queries, pattern);
}

}  // namespace fa_ggml
