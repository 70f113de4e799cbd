// clusterlaunchcontrol (PTX ISA 9.7.13.18): a cluster takes over another one of its grid that has not begun, which then
// never runs. The response is 16 bytes, in a layout of our own; it is written as late as other asynchronous results.
#include <cstring>
#include <string>

#include "exec/access.h"
#include "exec/bulk.h"
#include "exec/dispatch.h"
#include "exec/fault.h"
#include "exec/launch.h"
#include "memory/windows.h"

namespace fa::emu {
namespace {

using ptx::Space;
using ptx::Type;

struct Response {
  uint32_t first_block[3];
  uint32_t mark;
};
static_assert(sizeof(Response) == 16);
constexpr uint32_t cancelled = 0x636c6331, refused = 0x636c6330;

/// Whether some thread of a block has seen a response that refuses.
struct Refusals : State {
  bool seen = false;
};

class Cancellation : public BulkOperation {
 public:
  using BulkOperation::BulkOperation;
  std::vector<SharedTarget> targets;

  void announce() override {
    for (const SharedTarget &target : targets)
      report(Space::shared, AccessKind::async_issue_write, target.address, sizeof(Response), target.mbarrier);
  }

 protected:
  void gather() override {
    Cluster &cluster = *warp_.cta->cluster;
    Launch &launch = *cluster.launch;
    // A GPU refuses at any time when something more urgent is to run.
    constexpr uint64_t one_refusal_in = 8;
    bool refuses = launch.options.seed != 0 && cluster.random() % one_refusal_in == 0;
    std::optional<uint64_t> taken = refuses ? std::nullopt : launch.take_cluster();
    Response response{{UINT32_MAX, UINT32_MAX, UINT32_MAX}, refused};
    if (taken) {
      launch.shape.first_block(*taken, response.first_block);
      response.mark = cancelled;
    }
    data_.resize(sizeof response);
    std::memcpy(data_.data(), &response, sizeof response);
  }

  void scatter() override {
    for (const SharedTarget &target : targets) {
      std::memcpy(shared(target.address, sizeof(Response)), data_.data(), sizeof(Response));
      report(Space::shared, AccessKind::async_land, target.address, sizeof(Response), target.mbarrier);
      complete(target.mbarrier, sizeof(Response));
    }
  }
};

enum Flag : uint16_t { wide_response = 1, wide_mbarrier = 2, generic = 4, multicasting = 8 };

/// A shared address of the lane's own block.
uint32_t own_shared(Warp &warp, const Instruction &instruction, uint32_t lane, uint64_t address, const char *what) {
  bool window = !(instruction.detail & generic) || (address & ~memory::offset_mask) == memory::shared_window;
  if (!window || shared_address(address) >> memory::rank_shift != warp.cta->rank)
    fault(warp, instruction, FaultKind::illegal_address, static_cast<int>(lane),
          std::string(what) + " must be in the block's own shared memory");
  return shared_address(address);
}

/// list: the response's place and the mbarrier, a row and a displacement each.
void try_cancel(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const Slot *slots = warp.list(instruction);
  Launch &launch = *warp.cta->launch;
  if (launch.options.check && warp.cta->state<Refusals>().seen)
    launch.findings.add(Violation::cluster_request, warp, instruction, __builtin_ctz(mask),
                        "a request to cancel a cluster by a block that has seen a request fail: its result is "
                        "undefined");
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    uint32_t lane = static_cast<uint32_t>(__builtin_ctz(rest));
    auto operation = std::make_shared<Cancellation>(warp, instruction, lane);
    uint64_t place = listed_address(warp, slots, instruction.detail & wide_response, lane);
    uint64_t mbarrier = listed_address(warp, slots + 2, instruction.detail & wide_mbarrier, lane);
    SharedTarget target{own_shared(warp, instruction, lane, place, "the response"),
                        own_shared(warp, instruction, lane, mbarrier, "its mbarrier")};
    if (target.address % sizeof(Response) != 0)
      fault(warp, instruction, FaultKind::misaligned_address, static_cast<int>(lane),
            "a response is aligned to 16 bytes");
    uint32_t all = (1u << launch.cluster_size()) - 1;
    operation->targets = instruction.detail & multicasting ? multicast(target, all, false) : std::vector{target};
    submit(warp, lane, std::move(operation), false);
  }
}

bool decode_try_cancel(Decoder &d) {
  if (!d.has("async") || !d.has("mbarrier::complete_tx::bytes")) return false;
  d.expect_operands(2, 2);
  std::vector<Slot> slots;
  Instruction &out = d.out();
  if (list_address(d, 0, slots)) out.detail |= wide_response;
  if (list_address(d, 1, slots)) out.detail |= wide_mbarrier;
  if (!d.has("shared::cta")) out.detail |= generic;
  if (d.has("multicast::cluster::all")) out.detail |= multicasting;
  d.list(slots);
  return d.run(try_cancel);
}

Response response_of(Warp &warp, const Instruction &instruction, uint32_t lane) {
  Response response = warp.row<Response>(instruction.a)[lane];
  if (response.mark != cancelled && response.mark != refused)
    fault(warp, instruction, FaultKind::illegal_instruction, static_cast<int>(lane),
          "not a response from clusterlaunchcontrol.try_cancel: it was read before the mbarrier's phase has ended, or "
          "overwritten");
  return response;
}

/// a: the response; dst: a predicate.
void is_canceled(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint32_t taken = 0;
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    uint32_t lane = static_cast<uint32_t>(__builtin_ctz(rest));
    taken |= uint32_t{response_of(warp, instruction, lane).mark == cancelled} << lane;
  }
  if (mask & ~taken) warp.cta->state<Refusals>().seen = true;
  store_predicate(warp.row<uint32_t>(instruction.dst), taken, mask);
}

/// a: the response; list: x, y, z and more, or one of them, by detail. Of a refusal they are numbers of no block.
void first_block(Warp &warp, const Instruction &instruction, uint32_t mask) {
  Response responses[lanes];
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    uint32_t lane = static_cast<uint32_t>(__builtin_ctz(rest));
    responses[lane] = response_of(warp, instruction, lane);
  }
  for (uint32_t e = 0; e < instruction.list_count; e++) {
    uint32_t *row = warp.row<uint32_t>(warp.list(instruction)[e]), dimension = instruction.detail + e;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
      uint32_t lane = static_cast<uint32_t>(__builtin_ctz(rest));
      row[lane] = dimension < 3 ? responses[lane].first_block[dimension] : 0;
    }
  }
}

bool decode_query(Decoder &d) {
  d.expect_operands(2, 2);
  Instruction &out = d.out();
  out.a = d.source(1, Type::b128);
  if (d.has("is_canceled")) {
    out.dst = d.destination(0, Type::pred);
    return d.run(is_canceled);
  }
  bool all = d.has("get_first_ctaid") && d.has("v4");
  int dimension = all                           ? 0
                  : d.has("get_first_ctaid::x") ? 0
                  : d.has("get_first_ctaid::y") ? 1
                  : d.has("get_first_ctaid::z") ? 2
                                                : -1;
  if (dimension < 0) return false;
  std::vector<Slot> results;
  for (const ptx::Operand &element : d.elements(0)) results.push_back(d.destination(element, Type::b32));
  if (results.size() != (all ? 4u : 1u)) d.fail("get_first_ctaid gives a vector of 4 with .v4, else one register");
  out.detail = static_cast<uint16_t>(dimension);
  d.list(results);
  return d.run(first_block);
}

bool decode(Decoder &d) {
  if (d.type(d.opcode().types.size() - 1) != Type::b128) return false;
  return d.has("try_cancel") ? decode_try_cancel(d) : d.has("query_cancel") && decode_query(d);
}

const Registration registration{{"clusterlaunchcontrol", decode}};

}  // namespace
}  // namespace fa::emu
