// fa_dram: bytes that calls read from a device's memory, as a table: with all heads one after another, and by their
// plans' order. fa_dram --lines: those of the calls that the standard input has, a line each (lines.h). fa_dram
// --hand-out: how evenly calls are handed out, as a table.
#include <cstdio>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <utility>

#include "perf/dram/hand_out.h"
#include "perf/dram/lines.h"
#include "perf/dram/model.h"

namespace {

using namespace fa::dram;

double gigabytes(int64_t bytes) {
  return static_cast<double>(bytes) * 1e-9;
}

void print(const Call &call) {
  const Planned planned(call);
  const Traffic least = min_traffic_of(planned.plan);
  const Traffic before = traffic_of(one_group(planned.plan), call.gpu), after = traffic_of(planned.plan, call.gpu);
  std::printf("| %s | %s | %.2f | %.2f | %.2f | %.0f | %.0f | %.0f | %.0f | %.0f |\n", call.gpu.name,
              call.text().c_str(), gigabytes(least.read), gigabytes(before.read), gigabytes(after.read),
              before.bound(call.gpu), after.bound(call.gpu), call.gpu.peak, 100 * before.busy(), 100 * after.busy());
}

void print_table() {
  const Call calls[] = {
      {t4, 8, 4096, 4096, 32, 32, 64},
      {t4, 8, 4096, 4096, 32, 32, 128},
      {a10, 8, 4096, 4096, 32, 32, 128},
      {l4, 8, 4096, 4096, 32, 32, 128},
      {rtx4090, 8, 4096, 4096, 32, 32, 128},
      {a100, 8, 4096, 4096, 32, 32, 128},
      {h100, 8, 4096, 4096, 32, 32, 128},
      {t4, 8, 4096, 4096, 32, 32, 64, true},
      {a10, 8, 4096, 4096, 32, 32, 64, true},
      {l4, 8, 4096, 4096, 32, 32, 128, true},
      {a100, 8, 4096, 4096, 32, 32, 128, true},
      {h100, 2, 32768, 32768, 32, 32, 128, true},
      {a10, 4, 8192, 8192, 32, 8, 128, true},
      {a100, 4, 8192, 8192, 64, 8, 128, true},
      {l4, 0, 0, 0, 32, 32, 128, true, 0, {8192, 1000, 5000, 512, 3800, 77, 1900, 4096, 6000, 2500, 300, 8000}},
      {l4, 2, 2048, 16384, 32, 32, 128, false, 4},
      {a100, 4, 16, 32768, 32, 8, 128},
      {l4, 4, 512, 512, 8, 8, 64},
  };
  std::puts("| GPU | call | least GB | before | now | TFLOP/s before | now | peak | busy before, % | now |");
  std::puts("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
  for (const Call &call : calls) print(call);
}

const char *name_of(HandOut::Way way) {
  return way == HandOut::grid ? "grid" : way == HandOut::stride ? "stride" : "tickets";
}

void print_hand_out(const Gpu &gpu, bool warpgroups, Call call) {
  constexpr int64_t parts_taken = 8;  // of the multiprocessors one
  call.gpu = gpu, call.warpgroups = warpgroups;
  const Planned planned(call);
  const std::vector<double> lengths = lengths_of(planned.plan);
  const HandOut hand_out = HandOut::of(planned.plan);
  const auto unevenness = [&](int64_t taken, int64_t slow) {
    return end_of(lengths, hand_out, {gpu.sms, taken, slow}).unevenness();
  };
  std::printf("| %s | %s | %s | %s | %.1f | %.3f | %.3f | %.3f |\n", gpu.name, planned.plan.kernel().image->family_name,
              call.text().c_str(), name_of(hand_out.way), static_cast<double>(lengths.size()) / gpu.sms,
              unevenness(0, 0), unevenness(gpu.sms / parts_taken, 0), unevenness(0, 1));
}

void print_hand_outs() {
  const Call calls[] = {
      {{}, 8, 2048, 2048, 16, 16, 128},       {{}, 4, 4096, 4096, 16, 16, 128},
      {{}, 2, 8192, 8192, 64, 8, 128},        {{}, 8, 2048, 2048, 16, 16, 128, true},
      {{}, 2, 2048, 2048, 64, 8, 128, true},  {{}, 2, 8192, 8192, 64, 8, 128, true},
      {{}, 1, 8192, 8192, 32, 8, 128, true},  {{}, 1, 16384, 16384, 16, 16, 128, true},
      {{}, 1, 2048, 16384, 32, 8, 128, true}, {{}, 1, 1024, 62208, 9, 9, 128},
  };
  std::puts("| GPU | family | call | hand-out | tiles each | alike (simulated) | an eighth taken | one slow |");
  std::puts("| --- | --- | --- | --- | --- | --- | --- | --- |");
  for (const auto &[gpu, warpgroups] : {std::pair(h200, true), std::pair(b200, true), std::pair(a100, false)})
    for (const Call &call : calls) print_hand_out(gpu, warpgroups, call);
}

/// Of a line's call: family and entry point, rows and keys of its tile, tiles, blocks that work at once, splits, bytes
/// read and written.
void print_line(const std::string &line) {
  const Call call = call_of(line);
  const Planned planned(call);
  const fa::cuda::ForwardPlan &plan = planned.plan;
  const fa::cuda::KernelLaunch &kernel = plan.kernel();
  const Traffic traffic = traffic_of(plan, call.gpu);
  std::printf("%s %s %d %d %lld %lld %d %lld %lld\n", kernel.image->family_name, fa::kernels::name_of(kernel.entry),
              kernel.tile.rows, kernel.tile.keys, static_cast<long long>(plan.tiles()),
              static_cast<long long>(plan.slots), plan.splits(), static_cast<long long>(traffic.read),
              static_cast<long long>(traffic.written));
}

}  // namespace

int main(int count, char **words) {
  if (count == 1) {
    print_table();
    return 0;
  }
  if (count == 2 && std::strcmp(words[1], "--hand-out") == 0) {
    print_hand_outs();
    return 0;
  }
  if (count != 2 || std::strcmp(words[1], "--lines") != 0) {
    std::fprintf(stderr, "fa_dram: got %s, expected nothing, --lines or --hand-out\n", words[1]);
    return 2;
  }
  try {
    for (std::string line; std::getline(std::cin, line);) print_line(line);
  } catch (const std::invalid_argument &error) {
    std::fprintf(stderr, "fa_dram: %s\n", error.what());
    return 1;
  }
}
