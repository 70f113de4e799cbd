#include "api/overlap.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "api/refuse.h"

namespace fa::api {
namespace {

/// A tensor's bytes: low is that of its lowest element, end the one behind its highest.
struct Memory {
  const char *name;
  uintptr_t low, end;
  const int64_t *shape, *stride;  // in bytes; null for plain memory
  int64_t element;
};

Memory memory_of(const char *name, const fa_tensor &tensor, const View &view) {
  const auto data = reinterpret_cast<uintptr_t>(view.data);
  Memory memory = {name, data, data, tensor.shape, view.stride, dtype_bytes(view.dtype)};
  for (int i = 0; i < 4; ++i) {
    const int64_t way = view.stride[i] * (tensor.shape[i] - 1);
    (way < 0 ? memory.low : memory.end) += static_cast<uintptr_t>(way);
  }
  memory.end += static_cast<uintptr_t>(memory.element);
  return memory;
}

/// Whether each byte from low to end belongs to an element: every step is at most as long as what is stepped with.
bool has_no_gaps(const Memory &memory) {
  if (memory.shape == nullptr) return true;
  int64_t covered = memory.element;
  bool done[4] = {};
  for (int turn = 0; turn < 4; ++turn) {
    for (int i = 0; i < 4; ++i) {
      if (done[i] || std::abs(memory.stride[i]) > covered) continue;
      covered += std::abs(memory.stride[i]) * (memory.shape[i] - 1);
      done[i] = true;
    }
  }
  return std::all_of(done, std::end(done), [](bool each) { return each; });
}

/// Whether one of b's outermost elements lies within a, all of whose bytes are elements.
bool certainly_holds_an_end(const Memory &a, const Memory &b) {
  const auto is_within = [&](uintptr_t byte) { return a.low <= byte && byte < a.end; };
  return (is_within(b.low) || is_within(b.end - 1)) && has_no_gaps(a);
}

/// Of two extents that cross, one holds an end of the other.
bool check_apart(const Memory &written, const Memory &other) {
  if (written.end <= other.low || other.end <= written.low) [[likely]]
    return true;
  if (!certainly_holds_an_end(written, other) && !certainly_holds_an_end(other, written)) return true;
  return refuse("%s overlaps %s: %p .. %p and %p .. %p; expected memory that no other tensor of the call uses",
                written.name, other.name, reinterpret_cast<void *>(written.low), reinterpret_cast<void *>(written.end),
                reinterpret_cast<void *>(other.low), reinterpret_cast<void *>(other.end));
}

}  // namespace

bool check_overlap(const fa_args &args, const Problem &p) {
  Memory all[11];
  int count = 0;
  const auto add = [&](const char *name, const fa_tensor &tensor, const View &view) {
    if (view) all[count++] = memory_of(name, tensor, view);
  };
  if (p.workspace != nullptr) {
    const auto low = reinterpret_cast<uintptr_t>(p.workspace);
    all[count++] = {"args.workspace", low, low + p.workspace_size, nullptr, nullptr, 1};
  }
  add("args.out", args.out, p.out);
  add("args.lse", args.lse, p.lse);
  const int written = count;
  add("args.q", args.q, p.q);
  add("args.k", args.k, p.k);
  add("args.v", args.v, p.v);
  add("args.bias", args.bias, p.bias);
  add("args.mask", args.mask, p.mask);
  add("args.alibi_slopes", args.alibi_slopes, p.alibi_slopes);
  add("args.sinks", args.sinks, p.sinks);
  add("args.block_table", args.block_table, p.block_table);
  for (int i = 0; i < written; ++i)
    for (int j = i + 1; j < count; ++j)
      if (!check_apart(all[i], all[j])) return false;
  return true;
}

}  // namespace fa::api
