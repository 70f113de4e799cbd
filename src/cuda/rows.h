// The rows of the dispatch table that this build's images make: those of one architecture and family each.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "cuda/list.h"

namespace fa::cuda {

/// The images behind a line of the dispatch table.
struct Row {
  const Image *first = nullptr;  // narrow head dimensions first
  size_t count = 0;
  const Image *combine = nullptr;

  const kernels::Arch &arch() const { return *first->arch; }
  constexpr std::span<const Image> images() const { return {first, count}; }
  const kernels::Family &family() const { return *first->family; }

  /// The narrowest image for a type and a head dimension; nullptr where there is none.
  const Image *find(kernels::Dtype dtype, int64_t dim) const {
    const Image *best = nullptr;
    for (const Image &image : images())
      if (image.dtype == dtype && image.dim >= dim && (best == nullptr || image.dim < best->dim)) best = &image;
    return best;
  }

  const Image *image_for(const kernels::Attention &a) const {
    return find(family().compute_dtype(a), std::max(a.head_dim, a.head_dim_v));
  }

  /// The CUDA version of the first image that is available; 0 where none is, with the reason of the first one in *why.
  int cuda_version(MessageBuffer *why) const {
    for (const Image &image : images().subspan(1))
      if (const int version = cuda_version_of(image, why)) return version;
    return cuda_version_of(*first, why);
  }
};

/// Entry points that compute attention. Families without any have no row.
inline constexpr kernels::Entry forward_entries[] = {kernels::Entry::plain,     kernels::Entry::narrow,
                                                     kernels::Entry::score_mod, kernels::Entry::general,
                                                     kernels::Entry::split,     kernels::Entry::decode};

/// True at the first image of a row.
constexpr bool begins_row(size_t i) {
  return std::ranges::any_of(forward_entries, [i](kernels::Entry entry) { return list[i].has(entry); }) &&
         (i == 0 || std::string_view(list[i].name) != list[i - 1].name);
}

inline constexpr size_t row_count = [] {
  size_t count = 0;
  for (size_t i = 0; i < list_length; i++) count += begins_row(i);
  return count;
}();

/// Whether an image has the kernels of KernelSet::shared.
constexpr bool is_shared(const Image &image) {
  return image.has(kernels::Entry::combine) || image.has(kernels::Entry::delta);
}

/// The images of the row that begins at one.
constexpr std::span<const Image> row_at(size_t begin) {
  size_t end = begin;
  while (end < list_length && std::string_view(list[end].name) == list[begin].name) ++end;
  return {list + begin, end - begin};
}

/// All rows, in the order of the dispatch table.
struct Rows {
  Row of[row_count + 1];  // there may be none

  consteval Rows() {
    for (size_t i = 0, row = 0; i < list_length; i++) {
      if (!begins_row(i)) continue;
      of[row] = {&list[i], row_at(i).size(), nullptr};
      for (const Image &image : std::span(list, list_length))
        if (image.arch == list[i].arch && std::string_view(image.operation) == "forward" && is_shared(image))
          of[row].combine = &image;
      row++;
    }
  }
};

inline constexpr Rows rows;

}  // namespace fa::cuda
