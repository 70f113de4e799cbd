// The parts of a merge: tensors in arrays, which the tables of fields.h do not have.
#pragma once

#include <type_traits>

#include "core/call.h"

namespace fa {

/// The names of an array's tensors, in errors: "args.outs[31]".
struct PartNames {
  char of[FA_MAX_PARTS][16] = {};

  consteval explicit PartNames(const char *array) {
    for (int part = 0; part < FA_MAX_PARTS; part++) {
      char *to = of[part];
      for (const char *from = array; *from != '\0'; from++) *to++ = *from;
      *to++ = '[';
      if (part >= 10) *to++ = static_cast<char>('0' + part / 10);
      *to++ = static_cast<char>('0' + part % 10);
      *to = ']';
    }
  }
};

inline constexpr PartNames out_names("args.outs"), lse_names("args.lses");

/// An array of tensors, in the structure that a caller fills and in the call that it becomes.
struct PartsField {
  const char *array;  // in errors: "args.outs"
  const PartNames &names;
  const fa_tensor *fa_merge_args::*given;
  View (MergeCall::*views)[FA_MAX_PARTS];
};

inline constexpr PartsField merge_parts[] = {{"args.outs", out_names, &fa_merge_args::outs, &MergeCall::outs},
                                             {"args.lses", lse_names, &fa_merge_args::lses, &MergeCall::lses}};

template <class Call>
constexpr bool has_parts = std::is_same_v<std::remove_const_t<Call>, MergeCall>;

/// Calls f(field, part, view) for every tensor of every part, until it is false. Other calls than merges have none.
template <class Call, class F>
bool each_part([[maybe_unused]] Call &call, [[maybe_unused]] F f) {
  if constexpr (has_parts<Call>) {
    for (const PartsField &field : merge_parts)
      for (int part = 0; part < call.num_parts; part++)
        if (!f(field, part, (call.*field.views)[part])) return false;
  }
  return true;
}

}  // namespace fa
