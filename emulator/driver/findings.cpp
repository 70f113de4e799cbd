// Counting findings over a process, and saying each of them once.
#include "driver/findings.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "driver/settings.h"

namespace fa::emu::driver {
namespace {

constexpr size_t max_in_summary = 50, max_blocks_named = 3;

struct Known {
  ViolationClass what;
  std::string where;
  uint64_t count = 0, launches = 0;
};

struct Ledger {
  std::mutex mutex;
  std::map<std::string, Known> known;
  std::vector<std::string> order;  // keys of known as they came
  uint64_t launches = 0, with_findings = 0, suppressed = 0;
  std::vector<uint64_t> uses;  // of the settings' suppressions
};

Ledger &ledger() {
  // Never destroyed: it is looked at when the process ends.
  static Ledger *const instance = new Ledger;
  return *instance;
}

std::string place_of(const Fault &fault) {
  return fault.source.empty() ? "PTX line " + std::to_string(fault.ptx_line) : fault.source;
}

std::string key_of(const Finding &finding) {
  const Fault &first = finding.first;
  return first.kernel + '\n' + std::string(class_of(finding.what).name) + '\n' + place_of(first) + '\n' + finding.other;
}

std::string times(uint64_t count, std::string_view what) {
  const char *plural = what.ends_with("ch") ? "es" : "s";
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : plural);
}

/// "3 errors, 1 warning".
std::string by_severity(const uint64_t (&counts)[3]) {
  std::string text;
  for (auto [severity, what] : {std::pair(Severity::error, "error"), std::pair(Severity::warning, "warning"),
                                std::pair(Severity::formal, "formal finding")})
    if (uint64_t count = counts[static_cast<size_t>(severity)]) text += (text.empty() ? "" : ", ") + times(count, what);
  return text.empty() ? "no findings" : text;
}

/// "warps 0-3, 7".
std::string warps_of(uint32_t mask) {
  return (mask & (mask - 1) ? "warps " : "warp ") + list_of(mask);
}

std::string blocks_of(const Launch &launch, const Finding &finding) {
  const LaunchShape &shape = launch.shape;
  std::string text = times(finding.blocks.size(), "block");
  if (finding.blocks.size() == Finding::max_blocks) text += " or more";
  size_t named = 0;
  for (uint64_t number : finding.blocks) {
    if (named++ == max_blocks_named) return text + ", ...";
    uint64_t x = number % shape.grid[0], rest = number / shape.grid[0];
    text += (named == 1 ? ": (" : ", (") + std::to_string(x) + "," + std::to_string(rest % shape.grid[1]) + "," +
            std::to_string(rest / shape.grid[1]) + ")";
  }
  return text;
}

std::string extent_of(const Launch &launch, const Finding &finding) {
  std::string text = times(finding.count, "time");
  if (finding.lines.size() > 1)
    text += " at " + std::to_string(finding.lines.size()) + " lines of the PTX (" +
            std::to_string(*finding.lines.begin()) + " to " + std::to_string(*finding.lines.rbegin()) + ")";
  return text + ", by " + warps_of(finding.warps) + " of " + blocks_of(launch, finding);
}

void print(const Finding &finding) {
  const ViolationClass &what = class_of(finding.what);
  std::fprintf(stderr, "fa-emu: %s (%s): %s\n", std::string(name_of(what.severity)).c_str(),
               std::string(what.name).c_str(), finding.first.what().c_str());
}

void summarise() {
  Ledger &all = ledger();
  if (all.launches == 0 || settings().quiet) return;
  if (!all.known.empty() || all.suppressed) {
    uint64_t counts[3] = {};
    for (const auto &[key, known] : all.known) counts[static_cast<size_t>(known.what.severity)]++;
    std::fprintf(stderr, "fa-emu: checks: %s in %llu of %s; %llu suppressed\n", by_severity(counts).c_str(),
                 static_cast<unsigned long long>(all.with_findings), times(all.launches, "launch").c_str(),
                 static_cast<unsigned long long>(all.suppressed));
  }
  for (size_t i = 0; i < all.order.size() && i < max_in_summary; i++) {
    const Known &known = all.known[all.order[i]];
    std::fprintf(stderr, "fa-emu:   %s (%s) %s in %s: %s\n", std::string(name_of(known.what.severity)).c_str(),
                 std::string(known.what.name).c_str(), times(known.count, "time").c_str(),
                 times(known.launches, "launch").c_str(), known.where.c_str());
  }
  if (all.order.size() > max_in_summary)
    std::fprintf(stderr, "fa-emu:   ... and %zu more\n", all.order.size() - max_in_summary);
  const auto &suppressions = settings().suppressions;
  for (size_t i = 0; i < suppressions.size(); i++)
    if (i >= all.uses.size() || all.uses[i] == 0)
      std::fprintf(stderr, "fa-emu: FA_EMU_SUPPRESS: %s, line %u: '%s' matched nothing\n",
                   settings().suppression_file.c_str(), suppressions[i].number, suppressions[i].text.c_str());
}

int exit_status() {
  for (auto [severity, status] :
       {std::pair(Severity::error, 10), std::pair(Severity::warning, 11), std::pair(Severity::formal, 12)}) {
    if (severity < settings().fail_on) break;
    for (const auto &[key, known] : ledger().known)
      if (known.what.severity == severity) return status;
  }
  return 0;
}

}  // namespace

Judged judge(const Launch &launch) {
  {
    std::lock_guard lock(ledger().mutex);
    ledger().launches += launch.options.check;
  }
  return judge(launch.findings.all());
}

Judged judge(const std::vector<Finding> &findings) {
  Judged result;
  result.kept = findings;
  Ledger &all = ledger();
  std::lock_guard lock(all.mutex);
  const auto &suppressions = settings().suppressions;
  all.uses.resize(suppressions.size());
  result.suppressed = std::erase_if(result.kept, [&](const Finding &finding) {
    bool matches = false;
    for (size_t i = 0; i < suppressions.size(); i++)
      if (suppressions[i].matches(finding)) all.uses[i]++, matches = true;
    return matches;
  });
  all.with_findings += !result.kept.empty();
  all.suppressed += result.suppressed;
  // A launch may have several findings of one key: one place between different barriers.
  std::set<std::string> here, added;
  for (const Finding &finding : result.kept) {
    std::string key = key_of(finding);
    Known &known = all.known[key];
    const bool first_here = here.insert(key).second;
    if (first_here && known.launches++ == 0) {
      known.what = class_of(finding.what);
      const std::string &kernel = finding.first.kernel;
      known.where = (kernel.empty() ? "" : readable_name(kernel) + ", ") + place_of(finding.first);
      all.order.push_back(key);
      added.insert(key);
    }
    known.count += finding.count;
    result.is_new.push_back(added.contains(key));
  }
  return result;
}

void print(const Judged &findings) {
  for (size_t i = 0; i < findings.kept.size(); i++)
    if (findings.is_new[i]) print(findings.kept[i]);
}

void print(const Launch &launch, const Judged &findings) {
  uint64_t counts[3] = {}, before = 0;
  for (size_t i = 0; i < findings.kept.size(); i++) {
    const Finding &finding = findings.kept[i];
    const ViolationClass &what = class_of(finding.what);
    counts[static_cast<size_t>(what.severity)]++;
    before += !findings.is_new[i];
    if (!findings.is_new[i]) continue;
    print(finding);
    if (finding.count > 1) std::fprintf(stderr, "fa-emu:   %s\n", extent_of(launch, finding).c_str());
  }
  if (findings.kept.size() > 1 || before)
    std::fprintf(
        stderr, "fa-emu: kernel %s: %s%s\n", readable_name(launch.program->name).c_str(), by_severity(counts).c_str(),
        before ? (", " + std::to_string(before) + " of them already reported for an earlier launch").c_str() : "");
  if (size_t more = launch.findings.left_out())
    std::fprintf(stderr, "fa-emu:   ... and %zu more, which are neither reported nor counted\n", more);
}

void watch_exit() {
  on_exit(
      [](int status, void *) {
        summarise();
        // The C library goes on with the rest of the exit handlers, and with the new status.
        if (int own = status == 0 && settings().exits ? exit_status() : 0) std::exit(own);
      },
      nullptr);
}

void forget_findings() {
  Ledger &all = ledger();
  all.known.clear();
  all.order.clear();
  all.uses.clear();
  all.launches = all.with_findings = all.suppressed = 0;
}

}  // namespace fa::emu::driver
