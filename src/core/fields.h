// The tensors and arrays of a call as tables, for code that visits all of them: the lists of schema/ops.def.
#pragma once

#include <concepts>
#include <iterator>
#include <span>

#include "core/call.h"
#include "schema/schema.h"

namespace fa {

using schema::Access;
using schema::Presence;
using schema::ShapeRule;
using schema::TypeRule;

/// A tensor's member of the structure that a caller fills, and of the call that it becomes.
template <class Args, class Call>
struct TensorFieldOf {
  const char *name;  // in errors: "args.q"
  Access access;
  Presence presence;
  TypeRule type;
  ShapeRule shape;
  fa_tensor Args::*given;
  View Call::*view;
};

template <class Args, class Call>
struct ArrayFieldOf {
  const char *name;  // in errors: "args.cu_seqlens_q"
  int64_t more;      // entries in addition to one for each sequence
  const int32_t *Args::*given;
  const int32_t *Call::*data;

  int64_t entries(int64_t sequences) const { return sequences + more; }
};

/// The fields of a type of call. A structure may have no arrays, so `listed` has an empty entry at its end.
template <class Call>
struct Fields;

/// The kind of a field in schema/fields.def, by its type in fa.h.
template <class Field>
constexpr bool is_tensor = std::same_as<Field, fa_tensor>;
template <class Field>
constexpr bool is_array = std::same_as<Field, const int32_t *>;

/// Whether a call writes a tensor of this access.
template <class Call>
constexpr bool is_written(const Call &call, Access access) {
  if constexpr (requires { call.computes_scales; })
    if (access == Access::computed) return call.computes_scales;
  return access == Access::written;
}

#define FA_TENSOR(name, access, presence, type, shape, ...) \
  {"args." #name, Access::access, Presence::presence, TypeRule::type, ShapeRule::shape, &Args::name, &Call::name},
#define FA_ARRAY(name, more, ...) {"args." #name, more, &Args::name, &Call::name},
#define FA_OTHER(name, ...)                                                          \
  static_assert(!is_tensor<decltype(Args::name)> && !is_array<decltype(Args::name)>, \
                "schema/fields.def lists " #name " as neither tensor nor array");
#define FA_NAME(name, ...) , name
#define FA_OPERATION(op, Op, FIELDS)                                                                           \
  template <>                                                                                                  \
  struct Fields<Op##Call> {                                                                                    \
    using Args = fa_##op##_args;                                                                               \
    using Call = Op##Call;                                                                                     \
    static constexpr TensorFieldOf<Args, Call> tensors[] = {FIELDS(FA_TENSOR, FA_NOTHING, FA_NOTHING)};        \
    static constexpr ArrayFieldOf<Args, Call> listed[] = {FIELDS(FA_NOTHING, FA_ARRAY, FA_NOTHING){}};         \
    static constexpr std::span arrays = std::span(listed).first(std::size(listed) - 1);                        \
    FIELDS(FA_NOTHING, FA_NOTHING, FA_OTHER)                                                                   \
  };                                                                                                           \
                                                                                                               \
  /* A structured binding with the names of the list: a field of fa.h that the list lacks does not compile. */ \
  inline void check_field_list(const fa_##op##_args &args) {                                                   \
    [[maybe_unused]] const auto &[struct_size FIELDS(FA_NAME, FA_NAME, FA_NAME)] = args;                       \
  }
FA_OPERATIONS(FA_OPERATION)
#undef FA_TENSOR
#undef FA_ARRAY
#undef FA_OTHER
#undef FA_NAME
#undef FA_OPERATION

}  // namespace fa
