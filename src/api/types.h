// Which types a tensor may have, by the rule of its line in schema/fields.def.
#pragma once

#include "api/view.h"
#include "core/fields.h"

namespace fa::api {

/// bias: the type of args.bias, which only rules of calls that have one ask for.
[[gnu::always_inline]] inline Types types_of(TypeRule rule, const Attention &a, fa_dtype bias = FA_F32) {
  switch (rule) {
    case TypeRule::as_desc_q:
      return just(a.q_dtype, "desc.dtype_q");
    case TypeRule::as_desc_kv:
      return just(a.kv_dtype, "desc.dtype_kv");
    case TypeRule::as_desc_v:
      return just(a.v_dtype, "desc.dtype_v or, by default, desc.dtype_kv");
    case TypeRule::as_desc_k_rope:
      return just(a.k_rope_dtype, "desc.dtype_k_rope or, by default, desc.dtype_q");
    case TypeRule::as_desc_out:
      return just(a.out_dtype, "desc.dtype_out");
    case TypeRule::f32:
      return just(FA_F32);
    case TypeRule::any_float:
      return {FA_F32, float_types, ""};
    case TypeRule::boolean:
      return just(FA_BOOL);
    case TypeRule::i32:
      return just(FA_I32);
    case TypeRule::index:
      return {FA_I32, only(FA_I32) | only(FA_I64), ""};
    case TypeRule::like_q:
      return {a.q_dtype, float_types, ""};
    case TypeRule::like_kv:
      return {a.kv_dtype, float_types, ""};
    case TypeRule::like_v:
      return {a.v_dtype, float_types, ""};
    case TypeRule::like_out:
      return {a.out_dtype, float_types, ""};
    case TypeRule::like_bias:
      return {bias, only(FA_F32) | only(bias), "as args.bias, or FA_F32"};
  }
  __builtin_unreachable();
}

}  // namespace fa::api
