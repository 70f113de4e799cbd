// Element types and their constants in kernels. Compiled by the host's compiler and by nvcc alike.
#pragma once

#include <cstdint>

namespace fa::kernels {

/// Element types, numbered as fa_dtype is.
enum Dtype : int32_t {
#define FA_ELEMENT(dtype, number, name, use, bits) name = number,
#include "core/elements.inc"
#undef FA_ELEMENT
};

/// The column of elements.inc, the types with most uses first.
enum class Use { compute, cache, other };

/// A line of elements.inc.
struct ElementLine {
  Dtype dtype;
  const char *name;
  Use use;
  int bits;
};

inline constexpr ElementLine element_lines[] = {
#define FA_ELEMENT(dtype, number, name, use, bits) {name, #name, Use::use, bits},
#include "core/elements.inc"
#undef FA_ELEMENT
};

constexpr ElementLine line_of(Dtype dtype) {
  const ElementLine *line = element_lines;
  while (line->dtype != dtype) ++line;
  return *line;
}

/// The properties of a type, one specialisation each. Code that needs a property which a specialisation
/// lacks does not compile: a format of caches alone has no softmax.
///
///   infinity            its bits, which are those of the exponent
///   max_offset          where m is set, a row's largest weight becomes 2^max_offset; see collective/rescale.cuh
///   rescale_threshold   log2 of the factor by which a weight may exceed that before m moves
///   max_sum             wgmma: the largest sum of a lane's weights of a row in a tile, and so of each weight
///   exp2_degree         of a polynomial whose error is smaller than that of rounding weights to the type
///   f32_exponents       weights have f32's exponents
///   scales_gradients    its range needs scaled gradients of scores (backward/mma/grad_scale.cuh)
///   halves_gradients    its largest number is below f32's, with the same exponents: terms are halves
template <Dtype>
struct Element;

template <Dtype D>
struct ElementSize {
  static constexpr int bits = line_of(D).bits;
  static constexpr int bytes = bits / 8;
  static_assert(bits % 8 == 0);
};

template <>
struct Element<f32> : ElementSize<f32> {
  static constexpr uint32_t infinity = 0x7f800000;
  static constexpr bool scales_gradients = false;
};

template <>
struct Element<f16> : ElementSize<f16> {
  static constexpr uint32_t infinity = 0x7c00;
  static constexpr float max_offset = 10;  // keeps all bits of weights down to 2^-24 of the largest
  static constexpr float rescale_threshold = 5;
  static constexpr float max_sum = 65504;
  static constexpr int exp2_degree = 4;
  static constexpr bool f32_exponents = false;
  static constexpr bool scales_gradients = true;
  static constexpr bool halves_gradients = false;
  static_assert(max_offset + rescale_threshold <= 15);
};

template <>
struct Element<bf16> : ElementSize<bf16> {
  static constexpr uint32_t infinity = 0x7f80;
  static constexpr float max_offset = 0;
  static constexpr float rescale_threshold = 8;
  static constexpr float max_sum = 256;
  static constexpr int exp2_degree = 3;
  static constexpr bool f32_exponents = true;
  static constexpr bool scales_gradients = false;
  static constexpr bool halves_gradients = true;
};

/// A word of infinities: two of them where elements have 16 bits.
template <Dtype D>
constexpr uint32_t infinities = (Element<D>::bits == 16 ? 0x10001u : 1u) * Element<D>::infinity;
template <Dtype D>
constexpr uint32_t negative_infinities = infinities<D> | (Element<D>::bits == 16 ? 0x80008000u : 0x80000000u);

/// Some types, in the order of elements.inc.
template <Dtype... D>
struct Dtypes {};

template <Use Last, int I = 0, Dtype... Found>
constexpr auto dtypes_up_to() {
  if constexpr (I == sizeof(element_lines) / sizeof(ElementLine)) {
    return Dtypes<Found...>();
  } else if constexpr (element_lines[I].use <= Last) {
    return dtypes_up_to<Last, I + 1, Found..., element_lines[I].dtype>();
  } else {
    return dtypes_up_to<Last, I + 1, Found...>();
  }
}

/// The types of q, out, the bias and gradients; and the types of k and v.
using ComputeTypes = decltype(dtypes_up_to<Use::compute>());
using CacheTypes = decltype(dtypes_up_to<Use::cache>());

/// Bytes of an element whose type is one of these.
template <Dtype First, Dtype... Rest>
constexpr int element_bytes(Dtypes<First, Rest...>, int32_t dtype) {
  if constexpr (sizeof...(Rest) == 0) {
    return Element<First>::bytes;
  } else {
    return dtype == First ? Element<First>::bytes : element_bytes(Dtypes<Rest...>(), dtype);
  }
}

/// Whether gradients of scores are scaled where a type is computed with.
constexpr bool scales_gradients(int32_t dtype) {
  return [=]<Dtype... D>(Dtypes<D...>) {
    return ((dtype == D && Element<D>::scales_gradients) || ...);
  }
  (ComputeTypes());
}

/// Whether the tensor cores' kernels for 16 bits compute with a type, on architectures that have its products.
constexpr bool is_16_bit(int32_t dtype) {
  return [=]<Dtype... D>(Dtypes<D...>) {
    return ((dtype == D && Element<D>::bits == 16) || ...);
  }
  (ComputeTypes());
}

}  // namespace fa::kernels
