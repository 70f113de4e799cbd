// The images of this build as a constant, of which the dispatch table is made while compiling.
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

#include "cuda/image.h"
#include "families.h"
#include "schema/ops.def"

#ifdef FA_KERNELS_EMBEDDED
#define FA_CUDA_KERNEL(arch, family, dtype, dim) \
  extern "C" const unsigned char fa_image_##arch##_##family##_##dtype##_##dim[];
#include "built.inc"
#undef FA_CUDA_KERNEL
#define FA_IMAGE_DATA(name) name
#else
#define FA_IMAGE_DATA(name) nullptr
#endif

namespace fa::cuda {

/// The architecture of a name, "sm_90a"; a name without a line in archs.inc does not compile.
consteval const kernels::Arch &arch_of(std::string_view name) {
  const kernels::Arch *arch = kernels::archs;
  while (arch->name != name) ++arch;
  return *arch;
}

/// The operation of a family; one that has no line in families.inc does not compile.
consteval const char *operation_of(std::string_view family) {
#define FA_FAMILY(operation, name, ...) \
  if (family == #name) return #operation;
#include "families.inc"
#undef FA_FAMILY
  throw "no line in families.inc";
}

#define FA_STRING_OF(x) #x
#define FA_STRING(x) FA_STRING_OF(x)

/// A symbol that only images of this build have, of a family.
consteval const char *build_symbol_of(std::string_view family) {
#define FA_FAMILY(operation, name, ...) \
  if (family == #name) return "fa_build_" FA_STRING(FA_KERNEL_HASH_##name);
#include "families.inc"
#undef FA_FAMILY
  throw "no line in families.inc";
}

#undef FA_STRING
#undef FA_STRING_OF

/// A family as one that reads codes; nullptr where it does not.
constexpr const kernels::QuantisedFamily *reader_of_codes(const kernels::Family *) {
  return nullptr;
}
constexpr const kernels::QuantisedFamily *reader_of_codes(const kernels::QuantisedFamily *family) {
  return family;
}

consteval bool is_operation(std::string_view name) {
#define FA_IS(op, Op, FIELDS) \
  if (name == #op) return true;
  FA_OPERATIONS(FA_IS)
#undef FA_IS
  return false;
}

#define FA_FAMILY(operation, name, dtype, needs, ...)                                     \
  static_assert(is_operation(#operation), "schema/ops.def has no operation " #operation); \
  static_assert(fits_every_arch(kernels::name::family, kernels::needs, {__VA_ARGS__}));
#include "families.inc"
#undef FA_FAMILY

#define FA_CUDA_KERNEL(arch, name, dtype, dim)                \
  {"cuda." #arch "." #name,                                   \
   &arch_of(#arch),                                           \
   #name,                                                     \
   &kernels::name::family,                                    \
   kernels::dtype,                                            \
   dim,                                                       \
   FA_IMAGE_DATA(fa_image_##arch##_##name##_##dtype##_##dim), \
   operation_of(#name),                                       \
   build_symbol_of(#name),                                    \
   reader_of_codes(&kernels::name::family)},
inline constexpr Image list[] = {
#include "built.inc"
    {}};  // there may be none
#undef FA_CUDA_KERNEL
inline constexpr size_t list_length = std::size(list) - 1;

}  // namespace fa::cuda
