// The tensors and arrays of a call as tables, for whoever goes through all of them. operands.inc is the list of
// forward's, backward_operands.inc of backward's.
#pragma once

#include <concepts>

#include "core/call.h"

namespace fa {

enum class Access { read, written };
enum class Presence { required, optional };

/// Which types a tensor may have; the first is the meaning of FA_DTYPE_DEFAULT.
enum class TypeRule {
  as_desc_q,
  as_desc_kv,
  as_desc_out,
  f32,
  any_float,
  boolean,
  i32,
  like_q,    // dtype_q, or any other of float
  like_kv,   // dtype_kv, likewise
  like_out,  // dtype_out, likewise
  like_bias  // the bias', or f32
};

/// What a tensor's dimensions are; fa_forward_args' comments have them in full.
enum class ShapeRule {
  queries,  // (B, Sq, Hq, D)
  pages,    // (B, pages per sequence, 1, 1)
  keys,     // (B, Sk, Hkv, D)
  values,   // as keys, with Dv for D
  results,  // as queries, with Dv for D
  as_q,     // the shape of q; of k; of v
  as_k,
  as_v,
  row_sums,  // (B, Hq, Sq, 1)
  scores,    // (B, Hq, Sq, Sk), each may be 1
  heads      // (B or 1, Hq, 1, 1)
};

/// Of the structure that a caller fills, and of the call that it becomes.
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

/// The fields of a kind of call.
template <class Call>
struct Fields;

template <>
struct Fields<ForwardCall> {
  using Args = fa_forward_args;
  static constexpr TensorFieldOf<fa_forward_args, ForwardCall> tensors[] = {
#define FA_TENSOR(name, access, presence, type, shape)                           \
  {"args." #name,    Access::access,         Presence::presence, TypeRule::type, \
   ShapeRule::shape, &fa_forward_args::name, &ForwardCall::name},
#include "core/operands.inc"
  };
  static constexpr ArrayFieldOf<fa_forward_args, ForwardCall> arrays[] = {
#define FA_ARRAY(name, more) {"args." #name, more, &fa_forward_args::name, &ForwardCall::name},
#include "core/operands.inc"
  };
};

template <>
struct Fields<BackwardCall> {
  using Args = fa_backward_args;
  static constexpr TensorFieldOf<fa_backward_args, BackwardCall> tensors[] = {
#define FA_TENSOR(name, access, presence, type, shape)                            \
  {"args." #name,    Access::access,          Presence::presence, TypeRule::type, \
   ShapeRule::shape, &fa_backward_args::name, &BackwardCall::name},
#include "core/backward_operands.inc"
  };
  static constexpr ArrayFieldOf<fa_backward_args, BackwardCall> arrays[] = {
#define FA_ARRAY(name, more) {"args." #name, more, &fa_backward_args::name, &BackwardCall::name},
#include "core/backward_operands.inc"
  };
};

using TensorField = TensorFieldOf<fa_forward_args, ForwardCall>;
using ArrayField = ArrayFieldOf<fa_forward_args, ForwardCall>;
inline constexpr auto &tensor_fields = Fields<ForwardCall>::tensors;
inline constexpr auto &array_fields = Fields<ForwardCall>::arrays;

/// What is listed as FA_OTHER is no tensor and no array.
template <class Field>
concept Other = !std::same_as<Field, fa_tensor> && !std::same_as<Field, const int32_t *>;

#define FA_OTHER(name)                                  \
  static_assert(Other<decltype(fa_forward_args::name)>, \
                "core/operands.inc lists fa_forward_args::" #name " as neither");
#include "core/operands.inc"
#define FA_OTHER(name)                                   \
  static_assert(Other<decltype(fa_backward_args::name)>, \
                "core/backward_operands.inc lists fa_backward_args::" #name " as neither");
#include "core/backward_operands.inc"

/// Take the structures apart into as many names as the lists have: a field that these lack does not compile.
inline void take_apart(const fa_forward_args &args) {
  [[maybe_unused]] const auto &[struct_size
#define FA_TENSOR(name, ...) , name
#define FA_ARRAY(name, ...) , name
#define FA_OTHER(name) , name
#include "core/operands.inc"
  ] = args;
}
inline void take_apart(const fa_backward_args &args) {
  [[maybe_unused]] const auto &[struct_size
#define FA_TENSOR(name, ...) , name
#define FA_ARRAY(name, ...) , name
#define FA_OTHER(name) , name
#include "core/backward_operands.inc"
  ] = args;
}

}  // namespace fa
