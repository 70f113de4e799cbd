// The tensors and arrays of a call as tables, for whoever goes through all of them; operands.inc is the list.
#pragma once

#include <concepts>

#include "core/problem.h"

namespace fa {

enum class Access { read, written };
enum class Presence { required, optional };

/// Which types a tensor may have; the first is the one that FA_DTYPE_DEFAULT stands for.
enum class TypeRule { as_desc_q, as_desc_kv, as_desc_out, f32, any_float, boolean, i32 };

/// What a tensor's dimensions are; fa_args' comments have them in full.
enum class ShapeRule {
  queries,   // (B, Sq, Hq, D)
  pages,     // (B, pages per sequence, 1, 1)
  keys,      // (B, Sk, Hkv, D)
  values,    // as keys, with Dv for D
  results,   // as queries, with Dv for D
  row_sums,  // (B, Hq, Sq, 1)
  scores,    // (B, Hq, Sq, Sk), each may be 1
  heads      // (B or 1, Hq, 1, 1)
};

struct TensorField {
  const char *name;  // in errors: "args.q"
  Access access;
  Presence presence;
  TypeRule type;
  ShapeRule shape;
  fa_tensor fa_args::*given;
  View Problem::*view;
};

struct ArrayField {
  const char *name;  // in errors: "args.cu_seqlens_q"
  int64_t more;      // entries beside one for each sequence
  const int32_t *fa_args::*given;
  const int32_t *Problem::*data;

  int64_t entries(int64_t sequences) const { return sequences + more; }
};

inline constexpr TensorField tensor_fields[] = {
#define FA_TENSOR(name, access, presence, type, shape) \
  {"args." #name, Access::access, Presence::presence, TypeRule::type, ShapeRule::shape, &fa_args::name, &Problem::name},
#include "core/operands.inc"
};

inline constexpr ArrayField array_fields[] = {
#define FA_ARRAY(name, more) {"args." #name, more, &fa_args::name, &Problem::name},
#include "core/operands.inc"
};

/// What is listed as FA_OTHER is no tensor and no array.
template <class Field>
concept Other = !std::same_as<Field, fa_tensor> && !std::same_as<Field, const int32_t *>;

#define FA_OTHER(name) \
  static_assert(Other<decltype(fa_args::name)>, "core/operands.inc lists fa_args::" #name " as neither");
#include "core/operands.inc"

/// Takes fa_args apart into as many names as operands.inc has: a field that it lacks does not compile.
inline void take_apart(const fa_args &args) {
  [[maybe_unused]] const auto &[struct_size
#define FA_TENSOR(name, ...) , name
#define FA_ARRAY(name, ...) , name
#define FA_OTHER(name) , name
#include "core/operands.inc"
  ] = args;
}

}  // namespace fa
