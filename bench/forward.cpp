// fa_bench: measures every figure in alternation with its ceiling, and prints the ratio next to the goal.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "figures.h"
#include "peak.h"
#include "workload.h"

namespace fa::bench {
namespace {

/// The subjects of the figure under way. Google Benchmark enters a figure's function once for every repetition;
/// tensors are made the first time only.
struct Current {
  std::string name;
  std::unique_ptr<Subject> subject, reference;
};
Current current;

void prepare(const Figure &figure) {
  if (current.name == figure.name) return;
  current = {};
  fa_shutdown();  // no thread of the figure before stays to spin
  current.name = figure.name;
  current.subject = make_subject(figure.subject);
  if (has_reference(figure.measure)) current.reference = make_subject(figure.reference);
}

double gflops(const Subject &subject, double seconds) {
  return subject.flops() / seconds * 1e-9;
}

/// Seconds of every call of one repetition: the subject's and its baseline's, in alternation.
struct Times {
  std::vector<double> subject, other;
};

/// Runs the repetition. False when a call failed.
bool collect(benchmark::State &state, const Figure &figure, Times &times) {
  const Measure measure = figure.measure;
  Subject &subject = *current.subject;
  const Clock clock = clock_for(figure.subject.threads);
  constexpr int batch = 256;  // calls between two looks at the clock, where the clock would weigh
  for (auto _ : state) {
    if (measure == Measure::nanoseconds) {
      const double start = now(clock);
      for (int i = 0; i < batch; ++i) {
        if (!subject.call()) return false;
      }
      times.subject.push_back((now(clock) - start) / batch);
      continue;
    }
    const double seconds = subject.time(clock);
    if (seconds < 0) return false;
    times.subject.push_back(seconds);
    if (current.reference != nullptr) {
      const double other = current.reference->time(clock);
      if (other < 0) return false;
      times.other.push_back(other);
    } else if (measure == Measure::of_read || measure == Measure::of_copy) {
      times.other.push_back(subject.time_plain());
    }
  }
  return true;
}

void set_counters(benchmark::State &state, const Figure &figure, const Times &times, double peak) {
  const double seconds = median(times.subject), other = median(times.other);
  const Subject &subject = *current.subject;
  auto &counters = state.counters;
  counters["us"] = seconds * 1e6;
  if (is_of_products(figure.measure)) {
    counters["GFLOPs"] = gflops(subject, seconds);
    counters["peak_GFLOPs"] = peak;
    counters["of_peak"] = 100 * gflops(subject, seconds) / peak;
  }
  double measured = 0;
  switch (figure.measure) {
    case Measure::of_peak:
      measured = 100 * gflops(subject, seconds) / peak;
      break;
    case Measure::of_twice_one:
      measured = 100 * other / (2 * seconds);
      break;
    case Measure::of_plain:
      measured = 100 * gflops(subject, seconds) / gflops(*current.reference, other);
      break;
    case Measure::points_below_128:
      measured = 100 * (gflops(*current.reference, other) - gflops(subject, seconds)) / peak;
      break;
    case Measure::of_read:
    case Measure::of_copy:
      counters["GBs"] = subject.moved_bytes() / seconds * 1e-9;
      counters[figure.measure == Measure::of_read ? "read_GBs" : "copy_GBs"] = subject.moved_bytes() / other * 1e-9;
      measured = 100 * other / seconds;
      break;
    case Measure::of_one_token:
      counters["GBs"] = subject.moved_bytes() / seconds * 1e-9;
      measured = 100 * seconds / other;
      break;
    case Measure::nanoseconds:
      measured = seconds * 1e9;
      break;
  }
  counters[measure_name(figure.measure)] = measured;
  counters["goal"] = figure.goal;
}

void run_figure(benchmark::State &state, const Figure &figure) {
  prepare(figure);
  for (const Subject *subject : {current.subject.get(), current.reference.get()}) {
    if (subject != nullptr && !subject->error().empty()) return state.SkipWithError(subject->error().c_str());
  }
  if (current.subject->time(Clock::wall) < 0)
    return state.SkipWithError(fa_last_error());  // the first call starts threads
  const bool product = is_of_products(figure.measure);
  const int threads = std::max(1, figure.subject.threads);
  const double before = product ? measure_peak(figure.peak, threads) : 0;
  Times times;
  if (!collect(state, figure, times)) return state.SkipWithError(fa_last_error());
  const double after = product ? measure_peak(figure.peak, threads) : 0;
  set_counters(state, figure, times, std::max(before, after));
  state.SetLabel(current.subject->kernel());
}

void run_peak(benchmark::State &state, Peak peak, int threads) {
  double rate = 0;
  for (auto _ : state) rate = measure_peak(peak, threads);
  state.counters["GFLOPs"] = rate;
  state.SetLabel(peak_loop(peak).isa);
}

void run_read(benchmark::State &state, int threads, ReadPattern pattern) {
  constexpr size_t pieces = 6;
  const HugeBuffer memory(cold_bytes());
  const size_t piece = memory.bytes() / pieces / 4096 * 4096;
  std::vector<double> rates;
  read_seconds({{memory.data(), memory.bytes()}}, threads, pattern);  // the first pass over new memory is slower
  for (auto _ : state) {
    for (size_t i = 0; i < pieces; ++i) {
      const double seconds = read_seconds({{memory.data() + i * piece, piece}}, threads, pattern);
      rates.push_back(static_cast<double>(piece) / seconds * 1e-9);
    }
  }
  state.counters["GBs"] = median(rates);
}

void register_all() {
  for (const int threads : {1, 2}) {
    const std::string suffix = "/threads:" + std::to_string(threads);
    const auto ceiling = [&](const char *name, Peak peak) {
      if (peak_loop(peak).run == nullptr) return;
      benchmark::RegisterBenchmark((std::string("ceiling/") + name + suffix).c_str(), run_peak, peak, threads);
    };
    ceiling("fma_f32", Peak::f32);
    ceiling("fma_f32_avx2", Peak::f32_avx2);
    ceiling("dot_bf16", Peak::bf16);
    ceiling("dot_bf16_amx", Peak::bf16_amx);
    benchmark::RegisterBenchmark(("ceiling/read" + suffix).c_str(), run_read, threads, ReadPattern::in_order);
    benchmark::RegisterBenchmark(("ceiling/read/streams:8" + suffix).c_str(), run_read, threads,
                                 ReadPattern::eight_streams);
  }
  for (const Figure &figure : figures()) {
    benchmark::RegisterBenchmark(figure.name.c_str(), run_figure, figure)->Unit(benchmark::kMillisecond);
  }
}

/// One line a figure: measured, goal and verdict, from the median of the repetitions.
class FigureReporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context &context) override {
    PrintBasicContext(&GetErrorStream(), context);
    std::printf("%-56s %9s %17s %9s  %-23s %4s  %-8s %s\n", "figure", "us", "rate", "of peak", "measured", "goal",
                "verdict", "kernel");
    return true;
  }

  void ReportRuns(const std::vector<Run> &runs) override {
    for (const Run &run : runs) {
      const bool single = run.run_type == Run::RT_Iteration && run.repetitions <= 1;
      if (!error(run).empty()) {
        std::printf("%-56s %s\n", run.benchmark_name().c_str(), error(run).c_str());
        failed_ = true;
        break;
      }
      if (single || run.aggregate_name == "median") print(run);
    }
    std::fflush(stdout);
  }

  /// True when a figure could not be measured.
  bool failed() const { return failed_; }

 private:
  /// Its error under the names that old and new releases of Google Benchmark have for it.
  template <class AnyRun>
  static std::string error(const AnyRun &run) {
    if constexpr (requires { run.error_occurred; }) {
      return run.error_occurred ? run.error_message : "";
    } else {
      return static_cast<int>(run.skipped) != 0 ? run.skip_message : "";
    }
  }

  /// The counter, or nothing but its width where the run has none.
  static std::string cell(const Run &run, const char *name, const char *unit = "") {
    const auto found = run.counters.find(name);
    char text[32];
    if (found == run.counters.end()) {
      std::snprintf(text, sizeof text, "%9s", "");
    } else {
      std::snprintf(text, sizeof text, "%8.1f%s", found->second.value, unit);
    }
    return text;
  }

  static void print(const Run &run) {
    const char *rate = run.counters.count("GBs") != 0 ? "GBs" : "GFLOPs";
    const char *unit = run.counters.count(rate) == 0 ? "" : rate[1] == 'B' ? "GB/s" : "GFLOP/s";
    std::printf("%-56s %9s %9s %-7s %9s  ", run.run_name.str().c_str(), cell(run, "us").c_str(),
                cell(run, rate).c_str(), unit, cell(run, "of_peak", "%").c_str());
    for (const Measure measure : {Measure::of_twice_one, Measure::of_plain, Measure::points_below_128, Measure::of_read,
                                  Measure::of_copy, Measure::of_one_token, Measure::nanoseconds, Measure::of_peak}) {
      const auto found = run.counters.find(measure_name(measure));
      if (found == run.counters.end()) continue;
      const double measured = found->second.value, goal = run.counters.at("goal").value;
      const bool reached = less_is_better(measure) ? measured < goal : measured >= goal;
      std::printf("%6.1f %-16s %4.0f  %-8s ", measured, measure_name(measure), goal,
                  goal == 0 ? "reported"
                  : reached ? "reached"
                            : "MISSED");
      break;
    }
    std::printf("%s\n", run.report_label.c_str());
  }

  bool failed_ = false;
};

}  // namespace
}  // namespace fa::bench

int main(int argc, char **argv) {
  using namespace fa::bench;
  // Defaults first: the user's options come later and win. --quick is a look, not a measurement.
  bool quick = false;
  std::vector<char *> given;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--quick") {
      quick = true;
    } else {
      given.push_back(argv[i]);
    }
  }
  std::string repetitions = quick ? "--benchmark_repetitions=1" : "--benchmark_repetitions=7";
  std::string min_time = quick ? "--benchmark_min_time=0.05" : "--benchmark_min_time=0.2";
  std::vector<char *> arguments = {argv[0], repetitions.data(), min_time.data()};
  arguments.insert(arguments.end(), given.begin(), given.end());
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);

  benchmark::AddCustomContext("cpu", cpu_name());
  benchmark::AddCustomContext("isa", peak_loop(Peak::f32).isa);
  benchmark::AddCustomContext("native_bf16", peak_loop(Peak::bf16).run != nullptr ? "yes" : "no");
  benchmark::AddCustomContext("libfa", fa_build_info());
  register_all();
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;
  FigureReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  benchmark::Shutdown();
  return reporter.failed() ? 1 : 0;
}
