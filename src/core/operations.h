// The operations of schema/ops.def as types: a list of their calls, and the names of each. The C entry points, the
// dispatch and the engines follow this list.
#pragma once

#include <fa.h>

#include <cstddef>
#include <type_traits>

#include "core/call.h"
#include "schema/ops.def"

namespace fa {

template <class... Calls>
struct CallList {};

/// A CallList without its first type, so that each operation may begin with a comma.
template <class Unused, class... Calls>
struct Listed {
  using type = CallList<Calls...>;
};

#define FA_CALL(op, Op, FIELDS) , Op##Call
/// All operations, each by its type of call.
using AllCalls = Listed<void FA_OPERATIONS(FA_CALL)>::type;
#undef FA_CALL

/// How fa.h and messages name the operation of a type of call.
template <class Call>
struct OperationTraits;

#define FA_TRAITS(op, Op, FIELDS)                                                  \
  template <>                                                                      \
  struct OperationTraits<Op##Call> {                                               \
    using Args = fa_##op##_args;                                                   \
    static constexpr const char *name = #op;                                       \
    static constexpr const char *function = "fa_" #op;                             \
    static constexpr const char *workspace_function = "fa_" #op "_workspace_size"; \
  };
FA_OPERATIONS(FA_TRAITS)
#undef FA_TRAITS

/// The CMake option without which a build lacks an operation; "" where every build has it.
template <class Call>
constexpr const char *build_option = "";
template <>
inline constexpr const char *build_option<BackwardCall> = "FA_BACKWARD";

template <class Call>
using ArgsOf = typename OperationTraits<Call>::Args;

/// The number of a type in a list.
template <class Call, class... Calls>
constexpr size_t index_in(CallList<Calls...>) {
  size_t index = 0;
  ((std::is_same_v<Call, Calls> || (++index, false)) || ...);
  return index;
}

/// A T for each operation.
template <class T, class Calls = AllCalls>
class PerOperation;

template <class T, class... Calls>
class PerOperation<T, CallList<Calls...>> {
 public:
  template <class Call>
  T &of() {
    return of_[index_in<Call>(AllCalls())];
  }
  template <class Call>
  const T &of() const {
    return of_[index_in<Call>(AllCalls())];
  }

 private:
  T of_[sizeof...(Calls)];
};

}  // namespace fa
