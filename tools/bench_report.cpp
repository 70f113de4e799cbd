// Tables and JSON of benchmark runs.
#include "bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "error.h"
#include "library.h"
#include "printable.h"
#include "units.h"

namespace fa::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *format_name = "fa bench 1";

Json json_of_measurement(const Measurement &m) {
  const Interval interval = median_interval(m.seconds);
  const double middle = median(m.seconds);
  return {{"shape", shape_of(m.c)},
          {"dtype", dtype_name(m.c.dtype)},
          {"causal", m.c.causal},
          {"backward", m.c.backward},
          {"nondeterministic", m.c.nondeterministic},
          {"threads", m.c.threads},
          {"kernel_asked", m.c.kernel},
          {"kernel", m.kernel},
          {"flops", m.flops},
          {"bytes", m.bytes},
          {"median_seconds", middle},
          {"interval_95_seconds", {interval.low, interval.high}},
          {"gflops", m.flops / middle * 1e-9},
          {"seconds", m.seconds}};
}

Measurement parse_measurement(const Json &json) {
  Measurement m;
  m.c = parse_shape(json.at("shape").get<std::string>());
  m.c.dtype = dtype_of_name(json.at("dtype").get<std::string>());
  m.c.causal = json.at("causal").get<bool>();
  m.c.backward = json.value("backward", false);
  m.c.nondeterministic = json.value("nondeterministic", false);
  m.c.threads = json.at("threads").get<int32_t>();
  m.c.kernel = json.at("kernel_asked").get<std::string>();
  m.kernel = json.at("kernel").get<std::string>();
  m.flops = json.at("flops").get<double>();
  m.bytes = json.at("bytes").get<double>();
  m.seconds = json.at("seconds").get<std::vector<double>>();
  const bool positive = std::all_of(m.seconds.begin(), m.seconds.end(), [](double s) { return s > 0; });
  if (m.c.dtype == FA_DTYPE_DEFAULT || m.seconds.empty() || !positive) bad_input("a result without a dtype or times");
  return m;
}

/// "+3.1 %"
std::string percent(double ratio) {
  return fmt::format("{:+.1f} %", 100 * (ratio - 1));
}

}  // namespace

std::string json_of(const BenchRun &run) {
  Json json = {{"format", format_name}, {"version", run.version}, {"cpu", run.cpu}, {"results", Json::array()}};
  for (const Measurement &m : run.measurements) json["results"].push_back(json_of_measurement(m));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

BenchRun parse_bench_run(const std::string &text, const std::string &name) {
  try {
    const Json json = Json::parse(text);
    if (json.at("format").get<std::string>() != format_name) bad_input("its format is not '{}'", format_name);
    BenchRun run{json.at("version").get<std::string>(), json.at("cpu").get<std::string>(), {}};
    for (const Json &result : json.at("results")) run.measurements.push_back(parse_measurement(result));
    return run;
  } catch (const std::exception &error) {
    bad_input("{}: is not what `fa bench --json` writes: {}", name, error.what());
  }
}

void print_table(const std::vector<Measurement> &measurements) {
  fmt::print("{:<34} {:<16} {:>10}  {:<22} {:>9} {:>8}\n", "B,Hq,Hkv,Sq,Sk,D", "kernel", "median", "95 % within",
             "GFLOP/s", "GB/s");
  for (const Measurement &m : measurements) {
    const double middle = median(m.seconds);
    const Interval interval = median_interval(m.seconds);
    fmt::print("{:<34} {:<16} {:>10}  {:<22} {:>9.1f} {:>8.1f}\n", name_of(m.c), m.kernel, seconds_text(middle),
               fmt::format("[{}, {}]", seconds_text(interval.low), seconds_text(interval.high)),
               m.flops / middle * 1e-9, m.bytes / middle * 1e-9);
  }
}

std::vector<Change> changes_between(const BenchRun &base, const BenchRun &current, double threshold) {
  std::vector<Change> changes;
  for (const Measurement &now : current.measurements) {
    const auto before = std::find_if(base.measurements.begin(), base.measurements.end(),
                                     [&](const Measurement &m) { return name_of(m.c) == name_of(now.c); });
    if (before == base.measurements.end()) continue;
    const Ratio ratio = ratio_of(before->seconds, now.seconds);
    changes.push_back({&*before, &now, ratio, verdict_of(ratio, threshold)});
  }
  if (changes.empty()) bad_input("the baseline has none of the cases measured: nothing to compare");
  return changes;
}

int print_changes(const BenchRun &base, const BenchRun &current, const std::vector<Change> &changes, double threshold) {
  if (base.cpu != current.cpu)
    fmt::print("note: the baseline was measured on {}, this on {}\n", printable(base.cpu), current.cpu);
  if (base.version != current.version) fmt::print("library {} against {}\n", current.version, printable(base.version));
  fmt::print("{:<34} {:>10} {:>10} {:>9}  {:<22} {}\n", "time against the baseline", "before", "now", "change",
             "95 % within", "verdict");
  int slower = 0;
  for (const Change &change : changes) {
    slower += change.verdict == Verdict::slower;
    const Interval &i = change.ratio.interval;
    const bool same_kernel = change.base->kernel == change.current->kernel;
    fmt::print(
        "{:<34} {:>10} {:>10} {:>9}  {:<22} {}{}\n", name_of(change.current->c),
        seconds_text(median(change.base->seconds)), seconds_text(median(change.current->seconds)),
        percent(change.ratio.estimate), fmt::format("[{}, {}]", percent(i.low), percent(i.high)),
        verdict_name(change.verdict),
        same_kernel ? "" : fmt::format(" ({} before, {} now)", printable(change.base->kernel), change.current->kernel));
  }
  fmt::print("A change counts when its whole interval is beyond {:g} %.\n", 100 * threshold);
  return slower;
}

}  // namespace fa::tool
