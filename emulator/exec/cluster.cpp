// Clusters: setting their CTAs up and stepping their warps one after another.
#include <algorithm>

#include "exec/barrier.h"
#include "exec/cta.h"
#include "exec/launch.h"
#include "exec/special.h"
#include "exec/spin.h"
#include "memory/windows.h"

namespace fa::emu {
namespace {

constexpr uint32_t ordered_quantum = 4096;  // instructions that a warp may run in a row
constexpr uint32_t paced_quantum = 256;     // the same where blocks are to run side by side
constexpr uint32_t random_quantum = 64;     // at most, under a seed
constexpr int idle_rounds_until_stuck = 16;

constexpr uint64_t up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Bytes of a warp's own rows: its special registers and the entry's frame.
uint64_t row_bytes(const Program &program) {
  return up(program.warp_row_bytes, 64) + up(program.functions[0].frame_bytes, 64);
}

void begin_warp(Cta &cta, uint32_t index, uint8_t *rows, uint8_t *local) {
  const Program &program = *cta.launch->program;
  Warp &warp = cta.warps[index];
  warp.cta = &cta;
  warp.lists = program.lists.data();
  warp.index = index;
  uint32_t threads = std::min(lanes, cta.threads - index * lanes);
  warp.live = threads == lanes ? all_lanes : (1u << threads) - 1;
  warp.pause = Pause::no;
  warp.blocked = false;
  warp.local = local;
  warp.local_stride = program.local_bytes;
  warp.states.clear();
  uint8_t *frame = rows + up(program.warp_row_bytes, 64);
  warp.entry = Frame{};
  warp.entry.registers = frame;
  warp.entry.holders = 1;
  warp.groups[0] = {0, warp.live, &warp.entry, GroupState::ready, 0};
  warp.group_count = 1;
  warp.bank[Slot::frame] = frame;
  warp.bank[Slot::constant] = program.constants.empty() ? nullptr : program.constants.front().bytes;
  warp.bank[Slot::warp] = rows;
  for (auto &call : warp.frames) call->holders = 0;
  fill_warp_rows(warp, rows);
}

/// A warp that was seen to spin: whether it goes on like that.
bool still_spins(Warp &warp) {
  SpinWatch &watch = warp.state<SpinWatch>();
  if (watch.spinning) watch.spinning = spins(warp);
  return watch.spinning;
}

/// A warp that has run for this many instructions more: looks now and then whether it spins from here on.
void look_at_spinning(Warp &warp, uint32_t instructions) {
  SpinWatch &watch = warp.state<SpinWatch>();
  watch.ran += instructions;
  if (watch.ran < watch.next_look) return;
  watch.next_look = 2 * watch.ran;
  watch.spinning = spins(warp);
}

}  // namespace

uint32_t Cta::threads_alive() const {
  uint32_t count = 0;
  for (const Warp &warp : warps) count += static_cast<uint32_t>(__builtin_popcount(warp.live));
  return count;
}

void Cluster::begin_cta(Cta &cta, uint32_t rank) {
  const Program &program = *launch->program;
  const LaunchShape &shape = launch->shape;
  cta.cluster = this;
  cta.launch = launch;
  cta.rank = rank;
  shape.first_block(number, cta.id);
  uint32_t inside = rank;
  for (int d = 0; d < 3; d++) {
    cta.id[d] += inside % shape.cluster[d];
    inside /= shape.cluster[d];
  }
  cta.threads = shape.block[0] * shape.block[1] * shape.block[2];
  cta.shared_base = (rank << memory::rank_shift) + memory::shared_begin;
  cta.shared_bytes = program.dynamic_shared_offset + shape.dynamic_shared;
  // Ones: unwritten memory is NaN, in every type of floating point.
  cta.shared_storage.resize(cta.shared_bytes / sizeof(RowBlock) + 16);
  std::fill_n(cta.shared_storage.front().bytes, cta.shared_storage.size() * sizeof(RowBlock), uint8_t{0xff});
  // TMA with swizzling looks at address bits: the storage is aligned as the addresses are.
  auto storage = reinterpret_cast<uintptr_t>(cta.shared_storage.front().bytes);
  cta.shared = reinterpret_cast<uint8_t *>(up(storage, 64));
  cta.states.clear();
  cta.last_range = nullptr;
  uint32_t warp_count = (cta.threads + lanes - 1) / lanes;
  if (cta.warps.size() != warp_count) cta.warps = std::vector<Warp>(warp_count);
  cta.warps_alive = warp_count;
  uint64_t rows = row_bytes(program);
  cta.row_storage.assign(rows * warp_count / sizeof(RowBlock) + 1, RowBlock{});
  cta.local_storage.assign(uint64_t{program.local_bytes} * lanes * warp_count, 0);
  for (uint32_t w = 0; w < warp_count; w++)
    begin_warp(cta, w, cta.row_storage.front().bytes + w * rows,
               cta.local_storage.data() + uint64_t{w} * lanes * program.local_bytes);
  if (observer) observer->cta_begins(cta);
}

void Cluster::begin(Launch &new_launch, uint64_t n, uint64_t share) {
  launch = &new_launch;
  share_ = share;
  number = n;
  events = executed = clock = 0;
  waits = false;
  async.clear();
  states.clear();
  random.seed(launch->options.seed * 0x9e3779b97f4a7c15u + n);
  if (!observer && launch->make_observer) observer = launch->make_observer(*launch);
  if (size_t length = launch->program->code.size(); counts.size() != length) {
    counts.assign(length, {});
    passes.assign(length + 1, {});
    skipped.assign(length, 0);
  }
  uint32_t size = static_cast<uint32_t>(launch->cluster_size());
  if (ctas.size() != size) ctas = std::vector<Cta>(size);
  order_.clear();
  for (Cta &cta : ctas) cta.multiprocessor = launch->multiprocessors().enter(share);
  for (uint32_t rank = 0; rank < size; rank++) begin_cta(ctas[rank], rank);
  for (Cta &cta : ctas)
    for (Warp &warp : cta.warps) order_.push_back(&warp);
}

void Cluster::leave() {
  for (const Cta &cta : ctas) launch->multiprocessors().leave(cta.multiprocessor, share_);
}

bool Cluster::land_one() {
  if (async.empty()) return false;
  size_t chosen = 0;
  while (chosen + 1 < async.size() && async[chosen].last) chosen++;
  if (async[chosen].last) chosen = 0;
  if (launch->options.seed != 0) {
    chosen = random() % async.size();
    // No operation overtakes those that it must follow.
    for (size_t i = 0; i < chosen; i++)
      if (async[i].order != 0 && async[i].order == async[chosen].order) chosen = i;
  }
  AsyncOperation operation = std::move(async[chosen]);
  async.erase(async.begin() + static_cast<ptrdiff_t>(chosen));
  operation.land();
  events++;
  return true;
}

/// Lets every warp run in its turn; whether anything came of it.
bool Cluster::round(uint64_t &budget) {
  uint64_t events_before = events;
  bool moved = false;
  bool varied = launch->options.seed != 0;
  const uint32_t most = launch->paced ? paced_quantum : ordered_quantum;
  if (varied) std::shuffle(order_.begin(), order_.end(), random);
  for (Warp *warp : order_) {
    if (warp->blocked || warp->finished()) continue;
    uint32_t quantum = varied ? 1 + static_cast<uint32_t>(random() % random_quantum) : most;
    if (still_spins(*warp)) continue;
    uint32_t left = quantum;
    Stop stop = run_warp(*warp, left);
    budget -= std::min<uint64_t>(budget, quantum - left);
    executed += quantum - left;
    moved |= stop == Stop::finished || stop == Stop::budget;
    if (stop == Stop::budget) look_at_spinning(*warp, quantum - left);
    if (stop != Stop::finished) continue;
    Cta &cta = *warp->cta;
    if (--cta.warps_alive > 0) continue;
    if (observer) observer->cta_ends(cta);
    cta.states.at_exit(cta);
    for (Warp &ended : cta.warps) ended.states.at_exit(cta);
  }
  std::erase_if(order_, [](const Warp *warp) { return warp->finished(); });
  if (varied && !async.empty() && random() % 8 == 0) land_one();
  return moved || events != events_before;
}

Step Cluster::step(uint64_t budget) {
  bool moved = false;
  for (int idle = 0; budget > 0;) {
    if (order_.empty()) {
      while (land_one()) {
      }
      return Step::finished;
    }
    // Its steps before it got stuck may let others go on.
    if (round(budget) || land_one())
      idle = 0, moved = true;
    else if (++idle == idle_rounds_until_stuck)
      return moved ? Step::running : Step::stuck;
  }
  return Step::running;
}

std::string Cluster::where() const {
  std::string text;
  for (const Warp *warp : order_) {
    const Cta &cta = *warp->cta;
    for (uint32_t g = 0; g < warp->group_count && text.size() < 2000; g++) {
      const Group &group = warp->groups[g];
      // A blocked group has passed its instruction.
      uint32_t pc = group.pc - (group.state == GroupState::blocked);
      text += (text.empty() ? "" : "; ");
      text += "block (" + std::to_string(cta.id[0]) + "," + std::to_string(cta.id[1]) + "," +
              std::to_string(cta.id[2]) + ") warp " + std::to_string(warp->index) + " at " + launch->program->place(pc);
    }
  }
  return text;
}

}  // namespace fa::emu
