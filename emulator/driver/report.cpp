// Reports of launches: a table on stderr, a line of JSON in a file.
#include "driver/report.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "driver/api.h"
#include "driver/load_balance.h"
#include "driver/findings.h"
#include "driver/json.h"
#include "driver/settings.h"
#include "driver/synchronisation.h"
#include "driver/totals.h"
#include "driver/trace.h"

namespace fa::emu::driver {
namespace {

constexpr size_t longest_mix = 40;

struct Summary {
  std::vector<std::pair<std::string_view, ExecutionCount>> mix;  // by opcode, the most frequent first
  ExecutionCount total;
  uint64_t tensor_operations = 0;  // floating point operations of mma, wgmma and tcgen05.mma
  uint64_t barriers = 0;           // warps at bar, barrier
  std::vector<Synchronisation> synchronisation;
  std::optional<LoadBalance> balance;
};

/// 2 m n k of a shape such as m16n8k16; 0 for other modifiers.
uint64_t operations_of(std::string_view shape) {
  std::string text(shape);
  unsigned m = 0, n = 0, k = 0;
  int end = 0;
  bool matches = std::sscanf(text.c_str(), "m%un%uk%u%n", &m, &n, &k, &end) == 3;
  return matches && static_cast<size_t>(end) == text.size() ? uint64_t{2} * m * n * k : 0;
}

Summary summarise(const Launch &launch) {
  Summary result;
  result.tensor_operations = launch.tensor_operations;
  result.synchronisation = synchronisation_of(launch);
  result.balance = load_balance_of(launch);
  std::map<std::string_view, ExecutionCount> mix;
  const Program &program = *launch.program;
  for (uint32_t pc = 0; pc < launch.counts.size(); pc++) {
    const ExecutionCount &count = launch.counts[pc];
    if (count.warps == 0) continue;
    const ptx::Opcode &opcode = program.module->opcodes[program.source(pc).opcode];
    ExecutionCount &sum = mix[opcode.text];
    for (ExecutionCount *into : {&sum, &result.total}) {
      into->warps += count.warps;
      into->lanes += count.lanes;
    }
    if (opcode.name == "mma" || (opcode.name == "wgmma" && opcode.has("mma_async"))) {
      // Each of the four warps of a warpgroup counts the wgmma that they issue together.
      uint64_t share = opcode.name == "mma" ? 1 : 4;
      for (std::string_view modifier : opcode.modifiers)
        result.tensor_operations += operations_of(modifier) * count.warps / share;
    }
    if ((opcode.name == "bar" || opcode.name == "barrier") && !opcode.has("warp")) result.barriers += count.warps;
  }
  result.mix.assign(mix.begin(), mix.end());
  std::sort(result.mix.begin(), result.mix.end(),
            [](const auto &a, const auto &b) { return a.second.warps > b.second.warps; });
  return result;
}

double ratio(uint64_t a, uint64_t b) {
  return b ? static_cast<double>(a) / static_cast<double>(b) : 0;
}

unsigned long long wide(uint64_t value) {
  return value;
}

void print(const Launch &launch, const Summary &summary) {
  std::fprintf(stderr, "fa-emu: %s: %.6f s, %llu warp instructions, %llu thread instructions, %.1f M/s\n",
               readable_name(launch.program->name).c_str(), launch.seconds, wide(summary.total.warps),
               wide(summary.total.lanes), static_cast<double>(summary.total.lanes) / launch.seconds / 1e6);
  std::fprintf(stderr, "fa-emu:   %llu floating point operations of tensor cores, %llu warps at barriers\n",
               wide(summary.tensor_operations), wide(summary.barriers));
  print(launch, summary.synchronisation);
  if (summary.balance) print(launch, *summary.balance);
  const Traffic &traffic = launch.traffic;
  if (launch.options.count)
    std::fprintf(
        stderr,
        "fa-emu:   shared memory: %llu bytes read, %llu written, bank conflict factor %.2f; global memory: %llu "
        "bytes read, %llu written, %.1f sectors a request\n",
        wide(traffic.shared_read), wide(traffic.shared_written),
        ratio(traffic.shared_passes, traffic.shared_passes_least), wide(traffic.global_read),
        wide(traffic.global_written), ratio(traffic.global_sectors, traffic.global_requests));
  for (size_t i = 0; i < std::min(summary.mix.size(), longest_mix); i++)
    std::fprintf(stderr, "fa-emu:   %10llu  %.*s\n", wide(summary.mix[i].second.warps),
                 static_cast<int>(summary.mix[i].first.size()), summary.mix[i].first.data());
}

std::string json_of(const Fault &fault) {
  return "{\"kind\":" + quoted(name_of(fault.kind)) + ",\"message\":" + quoted(fault.message) +
         ",\"ptx_line\":" + std::to_string(fault.ptx_line) + ",\"ptx\":" + quoted(fault.ptx_text) +
         ",\"source\":" + quoted(fault.source) + ",\"block\":" + triple(fault.cta) +
         ",\"warp\":" + std::to_string(fault.warp) + ",\"lane\":" + std::to_string(fault.lane) + "}";
}

std::string json_of(const Finding &finding) {
  const ViolationClass &what = class_of(finding.what);
  std::string text = json_of(finding.first);
  text.back() = ',';
  text += "\"class\":" + quoted(what.name) + ",\"severity\":" + quoted(name_of(what.severity)) +
          ",\"count\":" + std::to_string(finding.count) + ",\"blocks\":" + std::to_string(finding.blocks.size()) +
          ",\"warps\":[";
  bool some = false;
  for (uint32_t warp = 0; warp < 32; warp++)
    if (finding.warps >> warp & 1) text += (std::exchange(some, true) ? "," : "") + std::to_string(warp);
  text += "],\"ptx_lines\":[";
  some = false;
  for (uint32_t line : finding.lines) text += (std::exchange(some, true) ? "," : "") + std::to_string(line);
  return text + "],\"other\":" + quoted(finding.other) + "}";
}

std::string json_of(const std::vector<Finding> &findings) {
  std::string text = "[";
  for (size_t i = 0; i < findings.size(); i++) text += (i ? "," : "") + json_of(findings[i]);
  return text + "]";
}

std::string json_of(const Launch &launch, const Summary &summary, const Judged &findings,
                    const std::optional<Fault> &fault) {
  const Traffic &traffic = launch.traffic;
  std::string text = "{\"kernel\":" + quoted(launch.program->name) +
                     ",\"name\":" + quoted(readable_name(launch.program->name)) +
                     ",\"grid\":" + triple(launch.shape.grid) + ",\"block\":" + triple(launch.shape.block) +
                     ",\"cluster\":" + triple(launch.shape.cluster);
  auto add = [&](const char *name, auto value) { text += std::string(",\"") + name + "\":" + std::to_string(value); };
  add("seconds", launch.seconds);
  add("warp_instructions", summary.total.warps);
  add("thread_instructions", summary.total.lanes);
  add("tensor_operations", summary.tensor_operations);
  add("barriers", summary.barriers);
  add("shared_bytes_read", traffic.shared_read);
  add("shared_bytes_written", traffic.shared_written);
  add("bank_conflict_factor", ratio(traffic.shared_passes, traffic.shared_passes_least));
  add("global_bytes_read", traffic.global_read);
  add("global_bytes_written", traffic.global_written);
  add("sectors_per_request", ratio(traffic.global_sectors, traffic.global_requests));
  text += json_of(launch, summary.synchronisation);
  if (summary.balance) text += json_of(launch, *summary.balance);
  text += ",\"mix\":{";
  for (size_t i = 0; i < summary.mix.size(); i++)
    text += (i ? "," : "") + quoted(summary.mix[i].first) + ":" + std::to_string(summary.mix[i].second.warps);
  text += "},\"violations\":" + json_of(findings.kept) + ",\"suppressed\":" + std::to_string(findings.suppressed);
  text += ",\"fault\":" + (fault ? json_of(*fault) : "null") + "}\n";
  return text;
}

void append(const std::string &file_name, const std::string &line) {
  FILE *file = std::fopen(file_name.c_str(), "a");
  if (!file) {
    std::fprintf(stderr, "fa-emu: FA_EMU_JSON: '%s' cannot be written\n", file_name.c_str());
    return;
  }
  std::fwrite(line.data(), 1, line.size(), file);
  std::fclose(file);
}

/// Where checks are strict, the first finding that is severe enough.
std::optional<Fault> fault_of(const Judged &findings) {
  if (!settings().strict) return {};
  for (const Finding &finding : findings.kept) {
    const ViolationClass &what = class_of(finding.what);
    if (what.severity < settings().fail_on) continue;
    Fault fault = finding.first;
    fault.message.insert(0, std::string(what.name) + ": ");
    return fault;
  }
  return {};
}

}  // namespace

void report(const Launch &launch, std::optional<Fault> &fault) {
  if (launch.timeline) write_timeline(launch);
  add_to_totals(launch);
  Judged findings = judge(launch);
  if (settings().report || !settings().json.empty()) {
    Summary summary = summarise(launch);
    if (settings().report) print(launch, summary);
    if (!settings().json.empty()) append(settings().json, json_of(launch, summary, findings, fault));
  }
  if (!settings().quiet) print(launch, findings);
  if (!fault) fault = fault_of(findings);
}

bool report(const std::vector<Finding> &findings) {
  const Judged judged = judge(findings);
  if (!settings().json.empty() && !judged.kept.empty())
    append(settings().json, "{\"kernel\":\"\",\"name\":" + quoted(findings[0].first.source) +
                                ",\"seconds\":0,\"thread_instructions\":0,\"violations\":" + json_of(judged.kept) +
                                ",\"suppressed\":" + std::to_string(judged.suppressed) + ",\"fault\":null}\n");
  if (!settings().quiet) print(judged);
  const std::optional<Fault> fault = fault_of(judged);
  if (fault) report_always("operation", CUDA_ERROR_LAUNCH_FAILED, fault->what());
  return fault.has_value();
}

}  // namespace fa::emu::driver
