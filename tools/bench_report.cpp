// Tables and JSON of benchmark runs.
#include "bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "error.h"
#include "library.h"
#include "text.h"

namespace fa::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *format_name = "fa bench 1";

/// The rate of a plain move of a case's memory, and its time in percent of the case's.
Json json_of_plain(const Measurement &m) {
  const double middle = median(m.plain_seconds);
  return {{"name", m.plain},
          {"bytes", m.plain_bytes},
          {"median_seconds", middle},
          {"gigabytes_per_second", m.plain_bytes / middle * 1e-9},
          {"percent_of_it", 100 * middle / median(m.seconds)},
          {"seconds", m.plain_seconds}};
}

Json json_of_measurement(const Measurement &m) {
  const Interval interval = median_interval(m.seconds);
  const double middle = median(m.seconds);
  Json json = {{"shape", shape_of(m.c)},
               {"dtype", dtype_name(m.c.dtype)},
               {"causal", m.c.causal},
               {"backward", m.c.backward},
               {"nondeterministic", m.c.nondeterministic},
               {"dtype_kv", storage_name(m.c.cache())},
               {"hadamard_k", m.c.hadamard_k},
               {"hadamard_v", m.c.hadamard_v},
               {"append", m.c.append},
               {"cold", m.c.cold},
               {"merge", m.c.merge},
               {"threads", m.c.threads},
               {"kernel_asked", m.c.kernel},
               {"kernel", m.kernel},
               {"flops", m.flops},
               {"bytes", m.bytes},
               {"median_seconds", middle},
               {"interval_95_seconds", {interval.low, interval.high}},
               {"gflops", m.flops / middle * 1e-9},
               {"gigabytes_per_second", m.bytes / middle * 1e-9},
               {"seconds", m.seconds}};
  if (!m.plain.empty()) json["plain"] = json_of_plain(m);
  return json;
}

/// A value of an object. Throws BadInput where it is missing or of another type.
template <class T>
T value_of(const Json &object, const char *name, const char *expected) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (found == object.end()) bad_input("there is no '{}'", name);
  try {
    return found->template get<T>();
  } catch (const Json::exception &) {
    bad_input("its '{}' is not {}", name, expected);
  }
}

bool flag_of(const Json &object, const char *name) {
  return value_of<bool>(object, name, "true or false");
}

std::string text_of(const Json &object, const char *name) {
  return value_of<std::string>(object, name, "a text");
}

double number_of(const Json &object, const char *name) {
  return value_of<double>(object, name, "a number");
}

/// Positive numbers of rounds. Throws BadInput where they are none.
std::vector<double> positive_numbers(const Json &json, const char *name) {
  auto numbers = value_of<std::vector<double>>(json, name, "a list of numbers");
  const bool positive = std::all_of(numbers.begin(), numbers.end(), [](double x) { return x > 0; });
  if (numbers.empty() || !positive) bad_input("its '{}' are not a list of positive numbers", name);
  return numbers;
}

/// A type of a case, FA_DTYPE_DEFAULT where it is that of q.
fa_dtype cache_of(const Json &json, fa_dtype dtype_q) {
  if (!json.contains("dtype_kv")) return FA_DTYPE_DEFAULT;
  const fa_dtype dtype = storage_of_name(text_of(json, "dtype_kv"));
  if (dtype == FA_DTYPE_DEFAULT) bad_input("its 'dtype_kv' is not one of {}", fmt::join(storage_dtypes(), ", "));
  return dtype == dtype_q ? FA_DTYPE_DEFAULT : dtype;
}

void parse_plain(const Json &json, Measurement *m) {
  if (!json.contains("plain")) return;
  const Json plain = value_of<Json>(json, "plain", "an object");
  m->plain = text_of(plain, "name");
  m->plain_bytes = number_of(plain, "bytes");
  m->plain_seconds = positive_numbers(plain, "seconds");
}

Measurement parse_measurement(const Json &json) {
  Measurement m;
  m.c = parse_shape(text_of(json, "shape"));
  m.c.dtype = dtype_of_name(text_of(json, "dtype"));
  m.c.causal = flag_of(json, "causal");
  m.c.backward = json.contains("backward") && flag_of(json, "backward");
  m.c.nondeterministic = json.contains("nondeterministic") && flag_of(json, "nondeterministic");
  m.c.merge = json.contains("merge") ? value_of<int32_t>(json, "merge", "a number") : 0;
  m.c.threads = value_of<int32_t>(json, "threads", "a number");
  m.c.kernel = text_of(json, "kernel_asked");
  m.kernel = text_of(json, "kernel");
  m.flops = number_of(json, "flops");
  m.bytes = number_of(json, "bytes");
  m.seconds = positive_numbers(json, "seconds");
  m.c.hadamard_k = json.contains("hadamard_k") && flag_of(json, "hadamard_k");
  m.c.hadamard_v = json.contains("hadamard_v") && flag_of(json, "hadamard_v");
  m.c.append = json.contains("append") && flag_of(json, "append");
  m.c.cold = json.contains("cold") && flag_of(json, "cold");
  parse_plain(json, &m);
  if (m.c.dtype == FA_DTYPE_DEFAULT) bad_input("its 'dtype' is not one of {}", fmt::join(compute_dtypes(), ", "));
  if (m.c.merge < 0 || m.c.merge > FA_MAX_PARTS) bad_input("its 'merge' is not within 0..{}", FA_MAX_PARTS);
  m.c.dtype_kv = cache_of(json, m.c.dtype);
  return m;
}

void parse_ceilings(const Json &json, BenchRun *run) {
  if (!json.contains("ceilings")) return;
  const Json list = value_of<Json>(json, "ceilings", "a list");
  if (!list.is_array()) bad_input("its 'ceilings' is not a list");
  for (const Json &each : list) run->ceilings.push_back({text_of(each, "name"), positive_numbers(each, "rates")});
}

BenchRun parse_run(const std::string &text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error &error) {
    if (text.empty()) bad_input("it is empty");
    bad_input("from its byte {} on it is not JSON", error.byte);
  }
  if (const std::string format = text_of(json, "format"); format != format_name)
    bad_input("its 'format' is '{}', not '{}'", format, format_name);
  BenchRun run{text_of(json, "version"), text_of(json, "cpu"), {}, {}};
  parse_ceilings(json, &run);
  const Json results = value_of<Json>(json, "results", "a list");
  if (!results.is_array()) bad_input("its 'results' is not a list");
  for (size_t i = 0; i < results.size(); ++i) {
    try {
      run.measurements.push_back(parse_measurement(results[i]));
    } catch (const BadInput &error) {
      bad_input("in result {}, {}", i + 1, error.what());
    }
  }
  return run;
}

/// A line's first column. A text that is wider has a separate line, so that tables fit 80 columns.
std::string first_column(const std::string &text, size_t width) {
  const std::string shown = "  " + text;
  if (shown.size() <= width) return fmt::format("{:<{}}", shown, width);
  return fmt::format("{}\n{:{}}", shown, "", width);
}

/// "+3.1 %"
std::string percent(double ratio) {
  return fmt::format("{:+.1f} %", 100 * (ratio - 1));
}

}  // namespace

std::string json_of(const BenchRun &run) {
  Json json = {{"format", format_name}, {"version", run.version}, {"cpu", run.cpu}, {"results", Json::array()}};
  for (const Measurement &m : run.measurements) json["results"].push_back(json_of_measurement(m));
  for (const Ceiling &ceiling : run.ceilings)
    json["ceilings"].push_back({{"name", ceiling.name}, {"rates", ceiling.rates}});
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

BenchRun parse_bench_run(const std::string &text, const std::string &name) {
  try {
    return parse_run(text);
  } catch (const BadInput &error) {
    bad_input("{}: is not a file of `fa bench --json`: {}", name, error.what());
  }
}

namespace {

constexpr size_t table_width = 26;  // of the first column

void print_row(const std::string &name, const std::vector<double> &seconds, double flops, double bytes) {
  const double middle = median(seconds);
  const Interval interval = median_interval(seconds);
  fmt::print("{} {:>10}  {:<22} {:>9} {:>8.1f}\n", first_column(name, table_width), seconds_text(middle),
             fmt::format("[{}, {}]", seconds_text(interval.low), seconds_text(interval.high)),
             flops > 0 ? fmt::format("{:.1f}", flops / middle * 1e-9) : "", bytes / middle * 1e-9);
}

}  // namespace

void print_table(const std::vector<Measurement> &measurements) {
  fmt::print("{} {:>10}  {:<22} {:>9} {:>8}\n", first_column("B,Hq,Hkv,Sq,Sk,D", table_width), "median", "95 % within",
             "GFLOP/s", "GB/s");
  std::string above;
  for (const Measurement &m : measurements) {
    const std::string heading = fmt::format("{}, {}", kind_of(m.c), printable(m.kernel));
    if (heading != above) fmt::print("{}\n", above = heading);
    print_row(shape_of(m.c), m.seconds, m.flops, m.bytes);
    if (m.plain.empty()) continue;
    const double part = 100 * median(m.plain_seconds) / median(m.seconds);
    print_row(fmt::format("  {:.0f} % of {}", part, m.plain == "read" ? "a plain read" : m.plain), m.plain_seconds, 0,
              m.plain_bytes);
  }
}

void print_ceilings(const std::vector<Ceiling> &ceilings) {
  for (const Ceiling &ceiling : ceilings) {
    const Interval interval = median_interval(ceiling.rates);
    const bool memory = ceiling.name == "memory";
    fmt::print("ceiling of {}: {:.1f} {} [{:.1f}, {:.1f}]\n",
               memory ? "reading memory" : printable(ceiling.name) + " products", median(ceiling.rates),
               memory ? "GB/s" : "GFLOP/s", interval.low, interval.high);
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
  if (changes.empty()) bad_input("the baseline has no case that was measured: nothing to compare");
  return changes;
}

int print_changes(const BenchRun &base, const BenchRun &current, const std::vector<Change> &changes, double threshold) {
  if (base.cpu != current.cpu)
    fmt::print("note: the baseline was measured on {}, this on {}\n", printable(base.cpu), current.cpu);
  if (base.version != current.version) fmt::print("library {} against {}\n", current.version, printable(base.version));
  constexpr size_t width = 21;
  fmt::print("{} {:>7} {:>7} {:>8}  {:<18} {}\n", first_column("time of", width), "before", "now", "change",
             "95 % within", "verdict");
  int slower = 0;
  std::string above;
  for (const Change &change : changes) {
    slower += change.verdict == Verdict::slower;
    const std::string &before = change.base->kernel, &now = change.current->kernel;
    const std::string kernels = printable(before == now ? now : fmt::format("{} before, {} now", before, now));
    const std::string kind = kind_of(change.current->c);
    const std::string heading = kind + (kind.size() + kernels.size() + 2 > 80 ? ",\n" : ", ") + kernels;
    if (heading != above) fmt::print("{}\n", above = heading);
    const Interval &i = change.ratio.interval;
    fmt::print("{} {:>7} {:>7} {:>8}  {:<18} {}\n", first_column(shape_of(change.current->c), width),
               seconds_text(median(change.base->seconds)), seconds_text(median(change.current->seconds)),
               percent(change.ratio.estimate),
               fmt::format("[{:+.1f}, {:+.1f}] %", 100 * (i.low - 1), 100 * (i.high - 1)),
               verdict_name(change.verdict));
  }
  fmt::print("A change counts when its whole interval is beyond {:g} %.\n", 100 * threshold);
  return slower;
}

}  // namespace fa::tool
