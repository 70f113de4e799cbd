// `fa check`: verifies the results of every kernel that this machine can run.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "check_case.h"
#include "command.h"
#include "error.h"
#include "library.h"
#include "terminal.h"

namespace fa::tool {
namespace {

/// One kernel in one type, over all cases.
struct Cell {
  int right = 0;
  int wrong = 0;
  int unsupported = 0;
  double of_bound = 0;
};

struct Trouble {
  std::string kernel, name;
  CaseOutcome outcome;
};

std::string cell_text(const Cell &cell) {
  if (cell.wrong > 0) return fmt::format("{} WRONG", cell.wrong);
  if (cell.right == 0) return "-";
  const std::string text = fmt::format("{} right, {:.0f} %", cell.right, 100 * cell.of_bound);
  return cell.unsupported > 0 ? fmt::format("{} ({} -)", text, cell.unsupported) : text;
}

/// Kernels that this machine can run, or the one asked for.
std::vector<std::string> kernels_to_check(const std::string &only) {
  std::vector<std::string> names;
  for (const fa_kernel &kernel : kernels()) {
    if (only.empty() ? kernel.available != 0 : only == kernel.name) names.emplace_back(kernel.name);
    if (only == kernel.name && !kernel.available)
      failure("this machine cannot run {}: {}", only, kernel.unavailable_reason);
  }
  if (names.empty() && !only.empty()) force_kernel(only);  // says which names there are
  if (names.empty()) failure("the library has no kernel that this machine can run; `fa info` says why");
  return names;
}

/// Runs everything, and prints the table on the way.
class Check {
 public:
  Check(std::vector<std::string> names, bool verbose)
      : names_(std::move(names)),
        verbose_(verbose),
        progress_(static_cast<int64_t>(names_.size() * check_types().size() *
                                       (check_cases().size() + check_merges().size() + check_appends().size()))) {}

  int run() {
    fmt::print("{:<18}", "kernel");
    for (const CheckType &type : check_types()) fmt::print(" {:<18}", type.name);
    fmt::print("\n");
    for (const std::string &kernel : names_) {
      std::string row = fmt::format("{:<18}", kernel);
      for (const CheckType &type : check_types()) row += fmt::format(" {:<18}", cell_text(cell_of(kernel, type)));
      progress_.clear();
      fmt::print("{}\n", row);
    }
    return report();
  }

 private:
  Cell cell_of(const std::string &kernel, const CheckType &type) {
    Cell cell;
    const auto judge = [&](const char *name, const auto &check) {
      progress_.update(done_++, fmt::format("{} {}", kernel, type.name));
      const CaseOutcome outcome = check();
      const bool unsupported = !outcome.unsupported.empty(), wrong = !unsupported && !outcome.failure.empty();
      ++(unsupported ? cell.unsupported : wrong ? cell.wrong : cell.right);
      cell.of_bound = std::max(cell.of_bound, outcome.of_bound);
      judged_ += !unsupported;
      if (wrong) troubles_.push_back({kernel, name, outcome});
      if (!verbose_) return;
      progress_.clear();
      fmt::print("  {} {}, {}: {}\n", kernel, type.name, name,
                 unsupported         ? fmt::format("not supported: {}", outcome.unsupported)
                 : wrong             ? "WRONG"
                 : !outcome.measured ? "right"
                                     : fmt::format("right, error {:.2g}, {:.0f} % of its bound", outcome.error,
                                                   100 * outcome.of_bound));
    };
    for (const CheckCase &each : check_cases())
      judge(each.name, [&] { return check_case(line_of(each, type), kernel); });
    for (const CheckMerge &each : check_merges()) judge(each.name, [&] { return check_merge(each, type, kernel); });
    for (const CheckAppend &each : check_appends()) judge(each.name, [&] { return check_append(each, type, kernel); });
    return cell;
  }

  int report() const {
    for (const Trouble &trouble : troubles_) {
      fmt::print("\n{}, {}: {}\n", trouble.kernel, trouble.name, trouble.outcome.failure);
    }
    if (!troubles_.empty()) {
      fmt::print("\n{} of {} checks FAILED. Please report this with the output of `fa info`.\n", troubles_.size(),
                 judged_);
      return exit_failure;
    }
    fmt::print("\nAll {} checks are right; the percentages are the largest error as a fraction of its bound.\n",
               judged_);
    return exit_ok;
  }

  std::vector<std::string> names_;
  bool verbose_;
  Progress progress_;
  std::vector<Trouble> troubles_;
  int64_t done_ = 0, judged_ = 0;
};

}  // namespace

Command check_command() {
  Command command{};
  command.name = "check";
  command.summary = "verify the results of every kernel here";
  command.usage = "[--kernel NAME] [--verbose]";
  command.details =
      "Runs a small list of cases, which covers every feature of the library, on each kernel that this machine can "
      "run and with each type of element: attention, over quantised caches too, its gradients, merges, and appends to "
      "caches. Their results are compared with the same computed in double precision. Tensors are placed between "
      "inaccessible pages, so reads and writes outside of them are found too.\n"
      "\n"
      "A result is right when its error is within a bound that follows from the type's precision, element by element, "
      "and at most twice that of the same maths done naively in that precision. Prints a table: for each kernel and "
      "type the number of cases that are right, and the largest error as a fraction of its bound. A dash is a type "
      "that a kernel does not support. For each failure it prints the line that repeats it.";
  command.examples = {{"After an installation:", "fa check"}};
  command.define = [](Options &options) -> std::function<int()> {
    struct Given {
      std::string kernel;
      bool verbose = false;
    };
    const auto given = std::make_shared<Given>();
    options.value("--kernel", given->kernel, "NAME", "check this kernel only");
    options.flag("--verbose", given->verbose, "print every case");
    options.help("print this");
    return [given] { return Check(kernels_to_check(given->kernel), given->verbose).run(); };
  };
  return command;
}

}  // namespace fa::tool
