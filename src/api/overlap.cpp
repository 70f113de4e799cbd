#include "api/overlap.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "api/refuse.h"
#include "api/steps.h"
#include "core/dtype.h"
#include "core/fields.h"
#include "core/operations.h"
#include "core/parts.h"

namespace fa::api {
namespace {

/// A tensor's bytes, or an array's: low is that of its lowest element, end the one behind its highest. A packed row
/// counts as one element.
struct Memory {
  const char *name;
  uintptr_t low, end;
  uint64_t element;  // bytes of one
  const int64_t (*shape)[4], (*stride)[4];

  Steps steps() const { return {*shape, *stride}; }  // in bytes
};

constexpr int64_t ones[4] = {1, 1, 1, 1};

Memory memory_of(const char *name, const fa_tensor &tensor, const View &view) {
  const auto data = reinterpret_cast<uintptr_t>(view.data);
  const auto element =
      static_cast<uint64_t>(is_packed(view.dtype) ? row_bytes(view.dtype, tensor.shape[3]) : dtype_bytes(view.dtype));
  Memory memory = {name, data, data + element, element, &tensor.shape, &view.stride};
  for (int i = 0; i < 4; ++i) {
    const int64_t way = view.stride[i] * (tensor.shape[i] - 1);
    (way < 0 ? memory.low : memory.end) += static_cast<uintptr_t>(way);
  }
  return memory;
}

/// Whether two views have the same elements in the same places, of tensors of one shape.
bool same_view(const View &a, const View &b) {
  return a.data == b.data && a.dtype == b.dtype && std::ranges::equal(a.stride, b.stride);
}

/// Whether a part of a merge may have the memory of the result: the first one, if they are the same tensor.
bool is_result(const MergeCall &call, const PartsField &field, int part, const View &view) {
  return part == 0 && same_view(view, field.views == &MergeCall::outs ? call.out : call.lse);
}

/// An array's memory is one element.
Memory memory_of(const char *name, const void *data, size_t bytes) {
  const auto low = reinterpret_cast<uintptr_t>(data);
  return {name, low, low + bytes, bytes, &ones, &ones};
}

/// Whether each byte from low to end belongs to an element: no step is longer than the dimensions inside it.
bool has_no_gaps(const Memory &memory) {
  const Steps steps = memory.steps();
  uint64_t covered = memory.element;
  for (int i = steps.count; i-- > 0; covered += steps.of[i].reach())
    if (steps.of[i].length > covered) return false;
  return true;
}

/// Whether an element of a certainly has one of the bytes from low to end: one that begins before end, reached by as
/// many of the longest steps as lead there, then of the next. It is the last such element where each step passes all
/// that shorter ones reach.
bool holds(const Memory &a, uintptr_t low, uintptr_t end) {
  if (end <= a.low || a.end <= low) return false;
  uint64_t left = end - 1 - a.low;  // from the element's first byte to the last one before end
  const Steps steps = a.steps();
  for (int i = 0; i < steps.count && steps.of[i].length != 0; ++i)
    left -= std::min(left / steps.of[i].length, steps.of[i].max_steps) * steps.of[i].length;
  return left < a.element + (end - 1 - low);
}

/// Whether a certainly has bytes of b, of whose elements only the outermost are looked at where there are gaps.
bool holds_some_of(const Memory &a, const Memory &b) {
  if (has_no_gaps(b)) return holds(a, b.low, b.end);
  return holds(a, b.low, b.low + b.element) || holds(a, b.end - b.element, b.end);
}

bool check_apart(const Memory &written, const Memory &other) {
  if (written.end <= other.low || other.end <= written.low) [[likely]]
    return true;
  if (!holds_some_of(written, other) && !holds_some_of(other, written)) return true;
  return refuse("%s overlaps %s: %p .. %p and %p .. %p; expected memory that nothing else of the call uses",
                written.name, other.name, reinterpret_cast<void *>(written.low), reinterpret_cast<void *>(written.end),
                reinterpret_cast<void *>(other.low), reinterpret_cast<void *>(other.end));
}

/// Whether an input may be, and is, exactly an output of the call.
template <class Call>
bool is_in_place(const Call &, View Call::*) {
  return false;
}
bool is_in_place(const AppendCall &call, View AppendCall::*input) {
  return input == &AppendCall::q && same_view(call.q, call.q_out);
}

/// Calls f(field) for every field of a table. Inlined for each, so that the field is a constant.
template <const auto &fields, class F>
[[gnu::always_inline]] inline void each(F f) {
  [&]<size_t... i>(std::index_sequence<i...>) { (f(fields[i]), ...); }(std::make_index_sequence<std::size(fields)>());
}

}  // namespace

template <class Args, class Call>
bool check_overlap(const Args &args, const Call &call) {
  constexpr size_t parts = has_parts<Call> ? std::size(merge_parts) * (FA_MAX_PARTS + 1) : 0;
  Memory all[1 + std::size(Fields<Call>::tensors) + std::size(Fields<Call>::arrays) + parts];
  int count = 0;
  const auto add = [&](const char *name, const fa_tensor &tensor, const View &view) {
    if (view) all[count++] = memory_of(name, tensor, view);
  };
  const auto add_plain = [&](const char *name, const void *data, size_t bytes) {
    if (data != nullptr && bytes != 0) all[count++] = memory_of(name, data, bytes);
  };
  add_plain("args.workspace", call.workspace, call.workspace_size);
  each<Fields<Call>::tensors>([&](const auto &t) {
    if (is_written(call, t.access)) add(t.name, args.*t.given, call.*t.view);
  });
  const int written = count;
  each<Fields<Call>::tensors>([&](const auto &t) {
    if (!is_written(call, t.access) && !is_in_place(call, t.view)) add(t.name, args.*t.given, call.*t.view);
  });
  each<Fields<Call>::arrays>([&](const auto &a) {
    add_plain(a.name, call.*a.data, static_cast<size_t>(a.entries(call.batch)) * sizeof(int32_t));
  });
  each_part(call, [&](const PartsField &field, int part, const View &view) {
    if constexpr (has_parts<Call>) {
      if (part == 0) add_plain(field.array, args.*field.given, static_cast<size_t>(call.num_parts) * sizeof(fa_tensor));
      if (!is_result(call, field, part, view)) add(field.names.of[part], (args.*field.given)[part], view);
    }
    return true;
  });
  for (int i = 0; i < written; ++i)
    for (int j = i + 1; j < count; ++j)
      if (!check_apart(all[i], all[j])) return false;
  return true;
}

#define FA_INSTANTIATE(op, Op, FIELDS) template bool check_overlap(const ArgsOf<Op##Call> &, const Op##Call &);
FA_OPERATIONS(FA_INSTANTIATE)
#undef FA_INSTANTIATE

}  // namespace fa::api
