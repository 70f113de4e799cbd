// `fa bench`: how fast attention is here, and whether that has changed.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "bench_plot.h"
#include "bench_report.h"
#include "bench_roofline.h"
#include "command.h"
#include "error.h"
#include "file.h"
#include "library.h"
#include "machine.h"
#include "options.h"
#include "reference/codes.h"
#include "terminal.h"

namespace fa::tool {
namespace {

struct BenchOptions {
  std::vector<std::string> shapes, dtypes, dtypes_kv;
  std::string sweep, kernel, json, plot, roofline, compare, measured;
  bool causal = false, backward = false, nondeterministic = false, append = false, cold = false;
  bool hadamard_k = false, hadamard_v = false;
  int32_t threads = 0;
  int64_t merge = 0;
  MeasureOptions measure;
  double threshold = 2;
};

BenchRun read_run(const std::string &path) {
  const std::vector<std::byte> bytes = read_text_file(path);
  return parse_bench_run(std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size()), path);
}

/// Throws BadInput for a case that the library would not see in its call.
void check_case_of(const BenchCase &c) {
  if (c.append && c.rows_q > c.rows_k)
    bad_input("{} new rows (Sq) do not fit into a cache of {} (Sk): --append takes shapes with Sq <= Sk, such as {}",
              c.rows_q, c.rows_k, "1,8,8,512,4096,128");
  const int64_t unit = reference::unit_elements(c.cache());
  if (c.dim % unit != 0 || c.dim_v % unit != 0)
    bad_input("--shape is '{}'; rows of {} have a multiple of {} elements", shape_of(c), storage_name(c.cache()), unit);
}

/// The shapes asked for in every type asked for; those of the baseline where none are.
std::vector<BenchCase> cases_of(const BenchOptions &options, const std::optional<BenchRun> &base) {
  std::vector<BenchCase> shapes;
  for (const std::string &text : options.shapes) shapes.push_back(parse_shape(text));
  if (!options.sweep.empty()) {
    for (const BenchCase &c : sweep(options.sweep)) shapes.push_back(c);
  }
  std::vector<BenchCase> cases;
  if (shapes.empty() && base) {
    for (const Measurement &m : base->measurements) cases.push_back(m.c);
    for (BenchCase &c : cases) c.kernel = options.kernel.empty() ? c.kernel : options.kernel;
    return cases;
  }
  if (shapes.empty()) shapes = sweep("quick");
  const std::vector<std::string> as_q = {""};
  for (const std::string &dtype : options.dtypes.empty() ? compute_dtypes() : options.dtypes) {
    for (const std::string &dtype_kv : options.dtypes_kv.empty() ? as_q : options.dtypes_kv) {
      for (BenchCase c : shapes) {
        c.dtype = dtype_of_name(dtype);
        c.dtype_kv = dtype_kv == dtype ? FA_DTYPE_DEFAULT : storage_of_name(dtype_kv);
        c.causal = options.causal;
        c.backward = options.backward;
        c.nondeterministic = options.nondeterministic;
        c.append = options.append;
        c.hadamard_k = options.hadamard_k;
        c.hadamard_v = options.hadamard_v;
        c.cold = options.cold;
        c.merge = static_cast<int32_t>(options.merge);
        c.threads = options.threads;
        c.kernel = options.kernel;
        check_case_of(c);
        cases.push_back(c);
      }
    }
  }
  return cases;
}

BenchRun measure_run(const BenchOptions &options, const std::optional<BenchRun> &base,
                     const Interruption &interruption) {
  const std::vector<BenchCase> cases = cases_of(options, base);
  MeasureOptions how = options.measure;
  std::optional<CeilingMeter> meter;
  if (!options.roofline.empty()) {
    meter.emplace(cases);
    how.at_round = [&meter] { meter->round(); };
  }
  Progress progress(options.measure.rounds * static_cast<int64_t>(cases.size()));
  const int32_t version = fa_version();
  std::vector<Measurement> measurements = measure(
      cases, how, [&](int64_t done, int64_t, const BenchCase &c) { progress.update(done, name_of(c)); },
      [&] { return interruption.requested(); });
  return {fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100), this_machine().cpu,
          std::move(measurements), meter ? meter->ceilings() : std::vector<Ceiling>()};
}

/// The changes from a baseline; none without one.
std::vector<Change> changes_of(const BenchOptions &options, const std::optional<BenchRun> &base, const BenchRun &run) {
  return base ? changes_between(*base, run, options.threshold / 100) : std::vector<Change>();
}

/// Prints a run, next to its baseline where there is one; the exit code.
int print_run(const BenchOptions &options, const std::optional<BenchRun> &base, const BenchRun &run) {
  if (!base) {
    print_table(run.measurements);
    print_ceilings(run.ceilings);
    return exit_ok;
  }
  return print_changes(*base, run, changes_of(options, base, run), options.threshold / 100) > 0 ? exit_failure
                                                                                                : exit_ok;
}

void save(OutputFile *file, const std::string &text) {
  file->write(std::as_bytes(std::span(text)));
  file->commit();
}

void check_usage(const BenchOptions &options) {
  const bool of_attention = options.causal || options.backward || options.nondeterministic;
  if (options.merge && of_attention)
    bad_input("--merge goes with no --causal, --backward or --nondeterministic: these are of attentions");
  if (options.append && (of_attention || options.merge))
    bad_input("--append goes with no --merge, --causal, --backward or --nondeterministic: these are of other calls");
  if (options.merge && !options.dtypes_kv.empty())
    bad_input("--merge goes with no --dtype-kv: it reads results, of the types of --dtype, and no keys or values");
  if ((options.hadamard_k || options.hadamard_v) && (options.merge || options.backward))
    bad_input("--hadamard-k and --hadamard-v go with no --merge or --backward: they are of calls on caches");
  check_outputs_are_no_inputs({&options.plot, &options.roofline}, {&options.compare, &options.measured});
  const std::pair<const char *, const std::string *> outputs[] = {
      {"--json", &options.json}, {"--plot", &options.plot}, {"--roofline", &options.roofline}};
  for (const auto &[one, path] : outputs) {
    for (const auto &[other, same] : outputs) {
      if (path < same && !path->empty() && *path == *same)
        bad_input("{} and {} are both '{}': name two files", one, other, *path);
    }
  }
  if (options.cold && (options.merge || options.backward))
    bad_input("--cold goes with no --merge or --backward: it is of calls on caches, fa_forward and fa_append");
}

/// The round in which a run was interrupted, of the cases that are measured together.
size_t last_round(const std::vector<Measurement> &measurements) {
  const Measurement &last = measurements.back();
  return (last.c.cold ? last : measurements.front()).seconds.size();
}

/// The outputs that an interrupted run leaves alone, as the end of a sentence.
std::string unwritten(bool json, bool plot, bool roofline) {
  std::vector<const char *> names;
  if (json) names.push_back("--json");
  if (plot) names.push_back("--plot");
  if (roofline) names.push_back("--roofline");
  if (names.empty()) return "";
  return fmt::format("; {} {} not written", fmt::join(names, " and "), names.size() > 1 ? "are" : "is");
}

int bench(const BenchOptions &options) {
  check_usage(options);
  std::optional<BenchRun> base;
  if (!options.compare.empty()) base = read_run(options.compare);
  std::optional<OutputFile> json, plot, roofline;
  if (!options.json.empty()) json.emplace(options.json);
  if (!options.plot.empty()) plot.emplace(options.plot);
  if (!options.roofline.empty()) roofline.emplace(options.roofline);

  Interruption interruption;
  const BenchRun run = options.measured.empty() ? measure_run(options, base, interruption) : read_run(options.measured);
  if (interruption.requested()) {
    if (!run.measurements.empty()) print_run(options, base, run);
    std::fflush(stdout);
    fmt::print(stderr, "fa bench: interrupted {}{}\n",
               run.measurements.empty()
                   ? "before the first measurement"
                   : fmt::format("in round {} of {}", last_round(run.measurements), options.measure.rounds),
               unwritten(json.has_value(), plot.has_value(), roofline.has_value()));
    interruption.end();
  }
  const int code = print_run(options, base, run);
  if (json) save(&*json, json_of(run));
  if (plot) save(&*plot, bench_svg(run, changes_of(options, base, run)));
  if (roofline) save(&*roofline, roofline_svg(run));
  return code;
}

void define_bench_options(Options *o, BenchOptions *b) {
  o->group("Cases");
  o->values("--shape", b->shapes, "B,Hq,Hkv,Sq,Sk,D[,Dv]", "sizes of a call; may be repeated");
  o->choice("--sweep", b->sweep, sweep_names(), "NAME", "quick (the default), prefill, decode, tokens or dims");
  o->choices("--dtype", b->dtypes, compute_dtypes(), "TYPES", "of f32,f16,bf16; default: all three");
  o->choices("--dtype-kv", b->dtypes_kv, storage_dtypes(), "TYPES",
             "of k and v: i8,e4m3,e5m2,i4,u4,q8_0,q4_0 too; default: --dtype's");
  // One text: one entry of the help.
  for (const auto &[name, flag] : {std::pair("--hadamard-k", &b->hadamard_k), {"--hadamard-v", &b->hadamard_v}})
    o->flag(name, *flag, "k, v rotated, as `fa append` does it");
  o->flag("--causal", b->causal, "with a causal mask");
  o->flag("--backward", b->backward, "the gradients of q, k and v");
  o->flag("--nondeterministic", b->nondeterministic, "trade reproducible bits for speed");
  o->value("--merge", b->merge, "N", "fa_merge of N results of each shape instead", Range{1, FA_MAX_PARTS});
  o->flag("--append", b->append, "fa_append of Sq rows to a cache of Sk instead");
  o->flag("--cold", b->cold, "keys, values and caches that come from memory");
  o->group("How");
  o->value("--threads", b->threads, "N", "CPU threads; default: all");
  o->value("--kernel", b->kernel, "NAME", "use this kernel (see `fa info`) or fail");
  o->value("--rounds", b->measure.rounds, "N", "rounds over all cases; default: 15", Range{1, 1000});
  o->value("--time", b->measure.seconds, "SECONDS", "per case and round; default: 0.05", Range{0, 3600});
  o->group("Results");
  o->value("--json", b->json, "FILE", "save the results");
  o->value("--plot", b->plot, "FILE", "draw them as SVG: a bar for each case");
  o->value("--roofline", b->roofline, "FILE", "draw them under the machine's ceilings, which this measures");
  o->value("--compare", b->compare, "FILE", "compare with saved results; exit 1 when slower");
  o->value("--threshold", b->threshold, "PERCENT", "smallest change that counts; default: 2", Range{0, 1000});
  o->value("--measured", b->measured, "FILE", "use these results, measure nothing");
  o->help("print this");
}

}  // namespace

Command bench_command() {
  Command command{};
  command.name = "bench";
  command.summary = "measure attention on this machine, and compare runs";
  command.usage = "[--shape B,Hq,Hkv,Sq,Sk,D[,Dv] | --sweep NAME] [options]";
  command.details =
      "Times calls on random tensors of each shape: B sequences, Hq query heads over Hkv key/value heads, Sq queries "
      "and Sk keys of D dimensions, values of Dv. Operations that a causal mask leaves out do not count in GFLOP/s. "
      "With --backward it is fa_backward that is timed, which has five products where fa_forward has two; with "
      "--merge it is fa_merge, which reads N results for Sq queries and writes one, whatever the keys; with --append "
      "fa_append, which writes Sq new rows at the end of each sequence's Sk.\n"
      "\n"
      "--dtype-kv stores keys and values in other types than queries. Integers and fp8 have an f32 scale for each "
      "token and head, u4 a zero as well, and the scales count as bytes; fa_append computes them. --cold takes as "
      "many caches, one after another, as the CPU's own caches cannot hold, and appends to all of their places in "
      "order.\n"
      "\n"
      "Calls that mostly move memory, those of --append and of up to 16 queries, have a second line on a CPU: a "
      "memcpy that reads and writes as many bytes, or a plain read of the keys and values, on as many threads, "
      "alternating with the calls. Its percentage is the speed of the call relative to that.\n"
      "\n"
      "Each of several rounds measures every case once, and the spread between rounds gives the confidence interval: "
      "it covers changes of the machine from second to second, other programs included. The interval of the median is "
      "between two order statistics, at 95 %. Interrupted (Ctrl-C), fa bench prints its measurements so far and "
      "leaves the files of --json and --plot as they were; a second Ctrl-C ends it at once.\n"
      "\n"
      "--roofline measures the machine's ceilings in the same rounds, on as many threads: a loop of multiply-adds (of "
      "bf16 the native dot product, where the CPU has it), and reading memory. It draws each case by its operations a "
      "byte, of tensors read and written once, and its rate. Above the line of memory are cases whose tensors were in "
      "a cache.\n"
      "\n"
      "--compare measures the cases of the file (or those given) and says for each whether it is faster, slower or "
      "unchanged. The change is the Hodges-Lehmann estimate, its interval that of the Mann-Whitney test, and it "
      "counts only when the whole interval is beyond the threshold. When a case is slower, the exit code is 1.";
  command.examples = {
      {"A few shapes in every type:", "fa bench"},
      {"Decode over 8-bit caches next to a plain read of them:",
       "fa bench --sweep decode --dtype f16 --dtype-kv f16,i8 --cold"},
      {"Appending to such a cache next to memcpy:",
       "fa bench --append --shape 1,8,8,512,4096,128 --dtype bf16 --dtype-kv i8"},
      {"One shape, saved:", "fa bench --shape 1,32,8,1,8192,128 --dtype bf16 --json before.json"},
      {"Products and memory, which of them is the bound:",
       "fa bench --sweep prefill --dtype f32,bf16 --roofline roofline.svg"},
      {"The same again after a change, with a picture of both:", "fa bench --compare before.json --plot change.svg"}};
  command.define = [](Options &all) -> std::function<int()> {
    const auto options = std::make_shared<BenchOptions>();
    define_bench_options(&all, options.get());
    return [options] { return bench(*options); };
  };
  return command;
}

}  // namespace fa::tool
