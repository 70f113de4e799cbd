// cp.async.bulk.tensor, cp.reduce.async.bulk.tensor and their prefetch (PTX ISA 9.7.9.27.5): boxes of tensors between
// global and shared memory.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "exec/access.h"
#include "exec/builder.h"
#include "exec/bulk.h"
#include "exec/dispatch.h"
#include "exec/fault.h"
#include "exec/launch.h"
#include "exec/number.h"
#include "exec/reduce.h"
#include "exec/tensor_box.h"

namespace fa::emu {
namespace {

using ptx::Space;
using ptx::Type;

enum Flag : uint16_t {
  wide_shared = 1,
  wide_mbarrier = 2,
  multicasting = 4,
  pairs = 8,
  four_rows = 16,
  im2col = 32,
  parameter_map = 64,  // the map is a parameter at a fixed place
};

/// Bits that an element outside of the tensor has.
uint64_t fill_of(const TensorMap &map) {
  if (map.fill == TensorFill::zeros) return 0;
  return map.type == TensorType::f64 ? 0x7fffffffffffffff : map.element_bytes() == 2 ? 0x7fff : 0x7fffffff;
}

/// Global memory to shared memory of one CTA or more.
class TensorLoad : public BulkOperation {
 public:
  using BulkOperation::BulkOperation;
  TensorBox box;
  std::vector<SharedTarget> targets;

  void announce() override {
    report_rows(AccessKind::async_issue_read);
    for (const SharedTarget &target : targets)
      report(Space::shared, AccessKind::async_issue_write, target.address, box.shared_bytes(), target.mbarrier);
  }

 protected:
  void gather() override {
    uint32_t element = box.map.element_bytes(), width = box.row_bytes();
    uint64_t fill = fill_of(box.map);
    data_.assign(box.bytes(), 0);
    if (fill != 0)
      for (size_t at = 0; at < data_.size(); at += element) std::memcpy(&data_[at], &fill, element);
    box.each_row([&](uint32_t number, const TensorRow &row) {
      if (row.bytes == 0) return;
      std::memcpy(&data_[size_t{number} * width + row.first], global(row.address, row.bytes), row.bytes);
    });
    if (box.map.type == TensorType::f32_ftz || box.map.type == TensorType::tf32_ftz)
      for (size_t at = 0; at < data_.size(); at += sizeof(float)) {
        float value;
        std::memcpy(&value, &data_[at], sizeof value);
        value = flush(value);
        std::memcpy(&data_[at], &value, sizeof value);
      }
    report_rows(AccessKind::async_end_read);
  }

  void scatter() override {
    for (const SharedTarget &target : targets) {
      box.to_shared(target.address, data_.data(), shared(target.address, box.shared_bytes()));
      report(Space::shared, AccessKind::async_land, target.address, box.shared_bytes(), target.mbarrier);
      complete(target.mbarrier, box.bytes());
    }
  }

 private:
  void report_rows(AccessKind kind) const {
    if (!warp_.cta->cluster->observer) return;
    box.each_row([&](uint32_t, const TensorRow &row) {
      report(Space::global, kind, row.address, row.bytes, targets.front().mbarrier);
    });
  }
};

/// Shared memory to global memory, copied or reduced.
class TensorStore : public BulkOperation {
 public:
  using BulkOperation::BulkOperation;
  TensorBox box;
  uint32_t source = 0;
  Reduce reduce = nullptr;

  void announce() override {
    report(Space::shared, AccessKind::async_issue_read, source, box.shared_bytes());
    report_rows(reduce ? AccessKind::atomic : AccessKind::async_issue_write);
  }

 protected:
  void gather() override {
    data_.resize(box.bytes());
    box.from_shared(source, shared(source, box.shared_bytes()), data_.data());
    report(Space::shared, AccessKind::async_end_read, source, box.shared_bytes());
  }

  void scatter() override {
    uint32_t width = box.row_bytes();
    box.each_row([&](uint32_t number, const TensorRow &row) {
      if (row.bytes == 0) return;
      uint8_t *to = global(row.address, row.bytes);
      const uint8_t *from = &data_[size_t{number} * width + row.first];
      reduce ? reduce(to, from, row.bytes) : (std::memcpy(to, from, row.bytes), void());
    });
    if (!reduce) report_rows(AccessKind::async_land);
  }

 private:
  void report_rows(AccessKind kind) const {
    if (!warp_.cta->cluster->observer) return;
    box.each_row([&](uint32_t, const TensorRow &row) { report(Space::global, kind, row.address, row.bytes); });
  }
};

/// The instruction's own address is the map's. list: shared address and mbarrier (a row and a displacement each), mask
/// of CTAs, three im2col offsets, coordinates. target: how many coordinates; list_count adds nothing.
class Operands {
 public:
  Operands(Warp &warp, const Instruction &instruction, uint32_t lane)
      : warp_(warp), instruction_(instruction), lane_(lane), slots_(warp.list(instruction)) {}

  TensorBox box() const {
    TensorBox box;
    box.map = map();
    uint32_t flags = instruction_.detail, count = instruction_.target & 7;
    bool by_rows = flags & four_rows;
    if (box.map.rank != (by_rows ? 2 : count))
      refuse("the tensor map has " + std::to_string(box.map.rank) + " dimensions");
    if (box.map.im2col != bool{(flags & im2col) != 0})
      refuse(box.map.im2col ? "an im2col tensor map needs .im2col" : "a tiled tensor map and .im2col");
    if (box.map.interleave != TensorInterleave::none) refuse("tensor maps with interleaving are not emulated");
    for (uint32_t i = 0; i < count; i++) {
      int32_t coordinate = warp_.row<int32_t>(slots_[8 + i])[lane_];
      (by_rows && i > 0 ? box.row_at[i - 1] : box.at[i]) = coordinate;
    }
    if (by_rows && (box.map.box[1] != 1)) refuse("gather4 and scatter4 need a box of one row");
    if (int32_t multiple = static_cast<int32_t>(box.map.granularity()); box.at[0] % multiple != 0)
      refuse("the box begins at element " + std::to_string(box.at[0]) + " of its rows, and must at a multiple of " +
             std::to_string(multiple) + " of packed elements");
    box.four_rows = by_rows;
    if (flags & im2col)
      for (int i = 0; i < 3; i++) box.offset[i] = warp_.row<uint16_t>(slots_[5 + i])[lane_];
    return box;
  }

  SharedTarget target() const {
    SharedTarget target{shared_address(listed_address(warp_, slots_, instruction_.detail & wide_shared, lane_)),
                        shared_address(listed_address(warp_, slots_ + 2, instruction_.detail & wide_mbarrier, lane_))};
    if (target.address % 128 != 0)
      fault(warp_, instruction_, FaultKind::misaligned_address, static_cast<int>(lane_),
            "a tensor's box in shared memory is aligned to 128 bytes");
    return target;
  }
  uint32_t cta_mask() const { return warp_.row<uint16_t>(slots_[4])[lane_]; }

 private:
  TensorMap map() const {
    Resolved memory;
    Space space = instruction_.detail & parameter_map ? Space::param : Space::generic;
    addresses(warp_, instruction_, memory.address);
    resolve(warp_, instruction_, space, 1u << lane_, tensor_map_bytes, 64, memory);
    report_map(memory);
    TensorMap map;
    if (!decode(memory.at[lane_], map)) refuse("there is no tensor map at this address");
    if (std::string wrong = wrong_with(map); !wrong.empty()) refuse("the tensor map: " + wrong);
    return map;
  }

  /// To the checks alone, as a read of the async proxy that is over at once: it is no traffic of the kernel's.
  void report_map(const Resolved &memory) const {
    if (!warp_.cta->launch->options.check || memory.space != Space::global) return;
    Access access;
    access.space = Space::global;
    access.bytes = tensor_map_bytes;
    access.mask = 1u << lane_;
    access.address = memory.address;
    access.async_proxy = true;
    warp_.cta->cluster->observer->access(warp_, instruction_, access);
  }

  [[noreturn]] void refuse(const std::string &message) const {
    fault(warp_, instruction_, FaultKind::illegal_instruction, static_cast<int>(lane_), message);
  }

  Warp &warp_;
  const Instruction &instruction_;
  uint32_t lane_;
  const Slot *slots_;
};

template <class F>
void each_lane(uint32_t mask, F f) {
  for (uint32_t rest = mask; rest; rest &= rest - 1) f(static_cast<uint32_t>(__builtin_ctz(rest)));
}

void load(Warp &warp, const Instruction &instruction, uint32_t mask) {
  each_lane(mask, [&](uint32_t lane) {
    Operands operands(warp, instruction, lane);
    auto operation = std::make_shared<TensorLoad>(warp, instruction, lane);
    operation->box = operands.box();
    SharedTarget target = operands.target();
    bool casts = instruction.detail & multicasting;
    operation->targets =
        casts ? multicast(target, operands.cta_mask(), instruction.detail & pairs) : std::vector{target};
    if (operation->targets.empty())
      fault(warp, instruction, FaultKind::illegal_instruction, static_cast<int>(lane), "a multicast to no block");
    submit(warp, lane, std::move(operation), false);
  });
}

/// target: from bit 3 on the reduction.
void store(Warp &warp, const Instruction &instruction, uint32_t mask) {
  each_lane(mask, [&](uint32_t lane) {
    Operands operands(warp, instruction, lane);
    auto operation = std::make_shared<TensorStore>(warp, instruction, lane);
    operation->box = operands.box();
    operation->source = operands.target().address;
    auto reduction = static_cast<Reduction>(instruction.target >> 3);
    operation->reduce = reduce_of(reduction, ptx_type(operation->box.map.type));
    if (reduction != Reduction::none && !operation->reduce)
      fault(warp, instruction, FaultKind::illegal_instruction, static_cast<int>(lane),
            "elements of this type have no such reduction");
    submit(warp, lane, std::move(operation), true);
  });
}

void prefetch(Warp &warp, const Instruction &instruction, uint32_t mask) {
  each_lane(mask, [&](uint32_t lane) { Operands(warp, instruction, lane).box(); });
}

/// [map, {coordinates}]: the map's address becomes the instruction's own.
void add_map(Decoder &d, size_t operand, std::vector<Slot> &coordinates) {
  const ptx::Operand &whole = d.operand(operand);
  auto parts = d.children(whole);
  if (parts.size() != 2) d.fail("expected [map, {coordinates}]");
  d.address(operand);
  bool variable = parts[0].kind == ptx::OperandKind::variable;
  if (variable && d.builder().is_entry_parameter(parts[0].index)) d.out().detail |= parameter_map;
  std::span<const ptx::Operand> each =
      parts[1].kind == ptx::OperandKind::vector ? d.children(parts[1]) : std::span(&parts[1], 1);
  for (const ptx::Operand &coordinate : each) coordinates.push_back(d.source(coordinate, Type::s32));
  size_t dimensions = 0;
  for (std::string_view modifier : d.opcode().modifiers)
    if (modifier.size() == 2 && modifier[1] == 'd') dimensions = static_cast<size_t>(modifier[0] - '0');
  bool by_rows = d.out().detail & four_rows;
  if (by_rows && dimensions != 2) d.fail("gather4 and scatter4 need a tensor of two dimensions");
  if (dimensions < 1 || dimensions > 5 || coordinates.size() != (by_rows ? 5 : dimensions))
    d.fail("the number of coordinates is not that of dimensions");
}

bool decode_tensor(Decoder &d) {
  if (!d.has("bulk") || !d.has("tensor")) return false;
  if (d.has("im2col::w") || d.has("im2col::w::128")) return false;
  Instruction &out = d.out();
  bool fetching = d.has("prefetch"), loading = d.has("mbarrier::complete_tx::bytes");
  if (!fetching && !loading && !d.has("bulk_group")) return false;
  bool stores = !fetching && !loading;
  if (d.has(stores ? "tile::gather4" : "tile::scatter4")) d.fail("rows are gathered by loads and scattered by stores");
  if (d.has(stores ? "tile::scatter4" : "tile::gather4")) out.detail |= four_rows;
  if (d.has("im2col") || d.has("im2col_no_offs")) out.detail |= im2col;
  if (d.has("multicast::cluster")) out.detail |= multicasting;
  if (d.has("cta_group::2")) out.detail |= pairs;
  // loads: [shared], [map], [mbarrier], offsets, mask, policy; stores: [map], [shared], policy; prefetch: [map],
  // offsets
  std::vector<Slot> slots, coordinates;
  std::optional<size_t> shared, mbarrier;
  if (!fetching) shared = loading ? 0 : 1;
  if (loading) mbarrier = 2;
  if (list_address(d, shared, slots)) out.detail |= wide_shared;
  if (list_address(d, mbarrier, slots)) out.detail |= wide_mbarrier;
  size_t next = fetching ? 1 : loading ? 3 : 2;
  std::vector<Slot> offsets(3, d.constant(0, 2));
  if (d.has("im2col")) {
    auto given = d.elements(next++);
    if (given.size() > 3) d.fail("more than three im2col offsets");
    for (size_t i = 0; i < given.size(); i++) offsets[i] = d.source(given[i], Type::u16);
  }
  slots.push_back(out.detail & multicasting ? d.source(next++, Type::u16) : d.constant(0, 2));
  slots.insert(slots.end(), offsets.begin(), offsets.end());
  if (d.has("L2::cache_hint")) next++;
  d.expect_operands(next, next);
  add_map(d, loading ? 1 : 0, coordinates);
  slots.insert(slots.end(), coordinates.begin(), coordinates.end());
  d.list(slots);
  out.target = static_cast<uint32_t>(coordinates.size()) | static_cast<uint32_t>(reduction_of(d.opcode())) << 3;
  return d.run(fetching ? prefetch : loading ? load : store);
}

const Registration registration{{"cp", decode_tensor}};

}  // namespace
}  // namespace fa::emu
