// Order: the cluster's queue keeps operations of one thread in theirs.
#include "exec/tensor_pipe.h"

#include "exec/fault.h"
#include "exec/launch.h"
#include "exec/mbarrier.h"

namespace fa::emu {
namespace {

uint32_t thread_of(const Warp &warp, uint32_t lane) {
  return warp.index * lanes + lane;
}

/// A unique number for every thread of the cluster, apart from the orders that other families use.
uint32_t order_of(const Warp &warp, uint32_t lane) {
  return 0x40000000 | warp.cta->rank << 12 | thread_of(warp, lane);
}

/// The key of the completions of a thread's operations: a commit signals all operations before it, however many commits
/// there were in between.
uint64_t key_of(const Warp &warp, uint32_t lane) {
  return uint64_t{1} << 62 | order_of(warp, lane);
}

}  // namespace

void TensorPipe::at_exit(Cta &cta) {
  if (!cta.launch->options.check) return;
  for (const auto &operation : all)
    if (!operation->done())
      cta.launch->findings.add(Violation::unwaited, operation->warp(), operation->instruction(), -1,
                               "is still in flight when the block ends: nothing has waited for a tcgen05.commit that "
                               "covers it");
}

void TensorOperation::observe_tensor(AccessKind kind, uint64_t key, TensorAccess access) const {
  Observer *observer = warp_.cta->cluster->observer.get();
  if (!observer) return;
  bool writes = access.kind == AccessKind::write;
  if (kind == AccessKind::async_issue_read)
    access.kind = writes ? AccessKind::async_issue_write : AccessKind::async_issue_read;
  else
    access.kind = writes ? AccessKind::async_land : AccessKind::async_end_read;
  access.pipe = order_of(warp_, lane_);
  access.key = key;
  observer->tensor_access(warp_, instruction_, access);
}

void start(std::shared_ptr<TensorOperation> operation) {
  Warp &warp = operation->warp();
  uint32_t lane = operation->lane();
  auto &pipe = warp.cta->state<TensorPipe>();
  operation->observe(AccessKind::async_issue_read, 0);
  std::erase_if(pipe.all, [](const auto &one) { return one->done(); });
  pipe.all.push_back(operation);
  pipe.open[thread_of(warp, lane)].push_back(operation);
  warp.cta->cluster->async.push_back({[operation] { operation->finish(); }, order_of(warp, lane)});
}

void commit(Warp &warp, const Instruction &instruction, uint32_t lane, std::vector<uint32_t> mbarriers) {
  auto &pipe = warp.cta->state<TensorPipe>();
  TensorPipe::Operations operations = std::move(pipe.open[thread_of(warp, lane)]);
  pipe.open.erase(thread_of(warp, lane));
  uint64_t begun = 0;
  if (Observer *observer = warp.cta->cluster->observer.get()) {
    for (uint32_t mbarrier : mbarriers) observer->mbarrier_arrives(warp, 1u << lane, mbarrier);
    begun = observer->progress_mark(warp);
  }
  auto land = [&warp, &instruction, lane, begun, operations = std::move(operations), mbarriers = std::move(mbarriers)] {
    if (Observer *observer = warp.cta->cluster->observer.get()) {
      uint64_t key = key_of(warp, lane);
      for (const auto &operation : operations) operation->observe(AccessKind::async_end_read, key);
      for (uint32_t mbarrier : mbarriers) observer->signals_too(key, mbarrier, begun);
    }
    for (uint32_t mbarrier : mbarriers) mbarrier_arrive(warp, instruction, static_cast<int>(lane), mbarrier, 1);
  };
  warp.cta->cluster->async.push_back({std::move(land), order_of(warp, lane)});
}

}  // namespace fa::emu
