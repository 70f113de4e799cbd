// The schema as C++: its rules as enumerations, and for each structure of fa.h tables of its tensors and arrays, for
// whoever goes through all of them. Knows the public structures and nothing of the library.
#pragma once

#include <fa.h>

#include <cstdint>
#include <iterator>
#include <span>

#include "schema/ops.def"

namespace fa::schema {

enum class Access { read, written, computed };
enum class Presence { required, optional };

/// The layouts of callers' arrays that become a tensor.
enum class Form { rows, factors, row_sums, scores, per_head, pages, places, table, tree };

#define FA_RULE(name, ...) name,
enum class TypeRule { FA_TYPE_RULES(FA_RULE) };
enum class ShapeRule { FA_SHAPE_RULES(FA_RULE) };
#undef FA_RULE

#define FA_RULE(name, form, text) Form::form,
constexpr Form form_of(ShapeRule rule) {
  constexpr Form forms[] = {FA_SHAPE_RULES(FA_RULE)};
  return forms[static_cast<int>(rule)];
}
#undef FA_RULE

/// A rule in words: "(B, Sq, Hq, D)".
#define FA_RULE(name, text) text,
constexpr const char *text_of(TypeRule rule) {
  constexpr const char *texts[] = {FA_TYPE_RULES(FA_RULE)};
  return texts[static_cast<int>(rule)];
}
#undef FA_RULE
#define FA_RULE(name, form, text) text,
constexpr const char *text_of(ShapeRule rule) {
  constexpr const char *texts[] = {FA_SHAPE_RULES(FA_RULE)};
  return texts[static_cast<int>(rule)];
}
#undef FA_RULE

/// Of a structure that a caller fills.
template <class Args>
struct Tensor {
  const char *name;  // "q"
  Access access;
  Presence presence;
  TypeRule type;
  ShapeRule shape;
  const char *text;
  fa_tensor Args::*field;
};

template <class Args>
struct Array {
  const char *name;  // "cu_seqlens_q"
  int64_t more;      // entries in addition to one for each sequence
  const char *text;
  const int32_t *Args::*field;
};

/// The tensors and arrays of a structure. A structure may have no arrays, so their list has an empty end.
template <class Args>
struct Fields;

#define FA_TENSOR(name, access, presence, type, shape, promise, text) \
  {#name, Access::access, Presence::presence, TypeRule::type, ShapeRule::shape, text, &Args::name},
#define FA_ARRAY(name, more, promise, text) {#name, more, text, &Args::name},
#define FA_OPERATION(op, Op, FIELDS)                                                       \
  template <>                                                                              \
  struct Fields<fa_##op##_args> {                                                          \
    using Args = fa_##op##_args;                                                           \
    static constexpr Tensor<Args> tensors[] = {FIELDS(FA_TENSOR, FA_NOTHING, FA_NOTHING)}; \
    static constexpr Array<Args> listed[] = {FIELDS(FA_NOTHING, FA_ARRAY, FA_NOTHING){}};  \
    static constexpr std::span arrays = std::span(listed).first(std::size(listed) - 1);    \
  };
FA_OPERATIONS(FA_OPERATION)
#undef FA_TENSOR
#undef FA_ARRAY
#undef FA_OPERATION

}  // namespace fa::schema
