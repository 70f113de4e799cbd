// Checking work when it is handed over, and doing it when its operation runs.
#include "driver/work.h"

#include <cstring>

#include "driver/memory_table.h"
#include "driver/report.h"
#include "driver/state.h"

namespace fa::emu::driver {
namespace {

uint64_t set_span(const SetWork &work) {
  uint64_t row = work.width * work.element_bytes;
  return row == 0 || work.height == 0 ? 0 : (work.height - 1) * work.pitch + row;
}

void check_end(const CopyWork &work, const CopyEnd &end) {
  uint64_t bytes = work.span(end);
  if (bytes == 0) return;
  require(end.address != 0, "a copy from or to null");
  require(work.height <= 1 || end.pitch >= work.width, "a pitch that is less than the copy's width");
  require(end.side == Side::host || is_accessible(end.address, bytes, end.side == Side::device),
          "a copy that is not within one allocation");
}

/// Memory may have been freed since the call.
bool still_there(Context &context, uint64_t address, uint64_t bytes, Side side) {
  if (side == Side::host || bytes == 0 || is_accessible(address, bytes, side == Side::device)) return true;
  context.sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
  report("copy or set", CUDA_ERROR_ILLEGAL_ADDRESS, "its memory was freed before its turn came");
  return false;
}

void copy(Context &context, const CopyWork &work) {
  CopyEnd from = work.from;
  if (work.staged)
    from.address = reinterpret_cast<uint64_t>(work.staged->data());
  else if (!still_there(context, from.address, work.span(from), from.side))
    return;
  if (!still_there(context, work.to.address, work.span(work.to), work.to.side) || work.width == 0) return;
  for (uint64_t z = 0; z < work.depth; z++)
    for (uint64_t y = 0; y < work.height; y++)
      std::memmove(reinterpret_cast<void *>(work.to.address + z * work.to.plane + y * work.to.pitch),
                   reinterpret_cast<const void *>(from.address + z * from.plane + y * from.pitch), work.width);
}

void set(Context &context, const SetWork &work) {
  if (!still_there(context, work.address, set_span(work), Side::device)) return;
  for (uint64_t y = 0; y < work.height; y++) {
    uint8_t *row = reinterpret_cast<uint8_t *>(work.address + y * work.pitch);
    if (work.element_bytes == 1)
      std::memset(row, static_cast<int>(work.value), work.width);
    else
      for (uint64_t x = 0; x < work.width; x++)
        std::memcpy(row + x * work.element_bytes, &work.value, work.element_bytes);
  }
}

constexpr uint64_t largest_flag = 8;  // that a copy may set for a kernel that waits

void add_rows(const CopyEnd &end, const CopyWork &work, bool writes, check::Footprint &into) {
  for (uint64_t z = 0; z < work.depth; z++)
    for (uint64_t y = 0; y < work.height; y++) {
      const uint64_t begin = end.address + z * end.plane + y * end.pitch;
      into.ranges.push_back({begin, begin + work.width, writes, false});
    }
}

/// Reports its conflicts with operations of other streams. does: its effect on its memory in words, where ranges do not
/// say it.
void compare_with_others(Context &context, const Operation &operation, const std::string &name,
                         check::Footprint footprint, const char *does = nullptr) {
  check::StreamOperation self;
  self.name = name + " in " + operation.stream;
  self.does = does;
  const std::vector<Finding> findings =
      queue().compare(operation, false, std::move(self), std::move(footprint), nullptr);
  if (!findings.empty() && report(findings)) context.sticky = CUDA_ERROR_LAUNCH_FAILED;
}

/// Operations that no kernel executes; launches compare themselves.
void compare(Context &context, const Work &work, const Operation &operation) {
  check::Footprint touched;
  if (const auto *copy = std::get_if<CopyWork>(&work)) {
    if (copy->span(copy->to) == 0) return;
    if (!copy->staged) add_rows(copy->from, *copy, false, touched);
    add_rows(copy->to, *copy, true, touched);
    const uint64_t bytes = copy->width * copy->height * copy->depth;
    if (bytes <= largest_flag) touched.released.push_back(copy->to.address);
    compare_with_others(context, operation, "a copy of " + std::to_string(bytes) + " bytes", std::move(touched));
  } else if (const auto *set = std::get_if<SetWork>(&work)) {
    if (set_span(*set) == 0) return;
    const uint64_t row = set->width * set->element_bytes;
    if (row * set->height <= largest_flag) touched.released.push_back(set->address);
    for (uint64_t y = 0; y < set->height; y++) {
      const uint64_t begin = set->address + y * set->pitch;
      touched.ranges.push_back({begin, begin + row, true, false});
    }
    compare_with_others(context, operation, "a memset of " + std::to_string(row * set->height) + " bytes",
                        std::move(touched));
  } else if (const auto *made = std::get_if<AllocateWork>(&work)) {
    touched.ranges.push_back({made->address, made->address + made->bytes, true, false});
    compare_with_others(context, operation, "cuMemAllocAsync", std::move(touched), " allocates");
  } else if (const auto *value = std::get_if<ValueWork>(&work); value && !value->waits) {
    touched.ranges.push_back({value->address, value->address + value->bytes, true, true});
    touched.released.push_back(value->address);
    compare_with_others(context, operation, "cuStreamWriteValue", std::move(touched));
  }
}

void free_in_turn(Context &context, const FreeWork &work, const Operation &operation) {
  check::Footprint touched;
  {
    Lock lock(process().mutex);
    if (const Allocation *allocation = find_allocation(work.address))
      touched.ranges.push_back({work.address, work.address + allocation->bytes, true, false});
  }
  if (settings().run.check && !touched.ranges.empty())
    compare_with_others(context, operation, "cuMemFreeAsync", std::move(touched), " frees");
  release_allocation(work.address);
}

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace

uint64_t CopyWork::span(const CopyEnd &end) const {
  if (width == 0 || height == 0 || depth == 0) return 0;
  return (depth - 1) * end.plane + (height - 1) * end.pitch + width;
}

void check(Context &context, const Work &work) {
  std::visit(Overloaded{
                 [&](const KernelWork &one) { check_launch(context, one); },
                 [&](const CopyWork &one) {
                   check_end(one, one.from);
                   check_end(one, one.to);
                 },
                 [&](const SetWork &one) {
                   uint32_t bytes = one.element_bytes;
                   require(bytes == 1 || bytes == 2 || bytes == 4, "elements have 1, 2 or 4 bytes");
                   require(one.address % bytes == 0 && one.pitch % bytes == 0,
                           "an address or pitch that is not aligned to the value");
                   require(one.height <= 1 || one.pitch >= one.width * bytes, "a pitch that is less than a row");
                   uint64_t span = set_span(one);
                   require(span == 0 || is_accessible(one.address, span, true), "a range not within one allocation");
                 },
                 [&](const ValueWork &one) {
                   require(one.address % one.bytes == 0, "an address that is not aligned to the value");
                   require(is_known(one.address) && is_accessible(one.address, one.bytes, true),
                           "memory that the device does not know");
                 },
                 [&](const HostWork &one) { require(one.function != nullptr, "no function"); },
                 [&](const auto &) {},
             },
             work);
}

void perform(Context &context, const Work &work, Operation &operation) {
  std::visit(Overloaded{
                 [&](const KernelWork &one) { launch(context, one, operation); },
                 [&](const CopyWork &one) { copy(context, one); },
                 [&](const SetWork &one) { set(context, one); },
                 [&](const HostWork &one) {
                   queue().tell_host(operation);
                   one.function(one.argument);
                 },
                 [&](const ValueWork &one) {
                   if (!one.waits && still_there(context, one.address, one.bytes, Side::device)) one.write();
                 },
                 [&](const FreeWork &one) { free_in_turn(context, one, operation); },
                 [&](const auto &) {},
             },
             work);
  if (settings().run.check && context.sticky == CUDA_SUCCESS) compare(context, work, operation);
}

}  // namespace fa::emu::driver
