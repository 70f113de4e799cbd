#include "decision.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "error.h"
#include "library.h"
#include "text.h"

namespace fa::tool {
namespace {

/// Takes the library's messages for as long as it lives.
class Listener {
 public:
  Listener() {
    setenv("FA_VERBOSE", "dispatch", 1);
    fa_set_log([](void *user, const char *text) { static_cast<Listener *>(user)->lines.emplace_back(text); }, this);
  }
  ~Listener() { fa_set_log(nullptr, nullptr); }
  Listener(const Listener &) = delete;
  Listener &operator=(const Listener &) = delete;

  std::vector<std::string> lines;
};

/// The rest of a text behind a prefix; false where it has another beginning.
bool take(std::string_view *text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

/// "dispatch: cpu.avx2 skipped: the CPU has no FMA", "dispatch: cpu.avx2 chosen", "dispatch: device auto: there is no
/// GPU".
void add_line(std::string_view line, std::vector<Branch> *branches) {
  if (!take(&line, "dispatch: ")) return;
  if (take(&line, "device auto: ")) {
    branches->push_back({std::string(line), {}});
    return;
  }
  const size_t space = line.find(' ');
  if (space == line.npos) return;
  const std::string kernel(line.substr(0, space));
  line.remove_prefix(space + 1);
  const bool chosen = take(&line, "chosen");
  if (!chosen && !take(&line, "skipped")) return;
  take(&line, ": ");
  if (branches->empty()) branches->emplace_back();
  std::vector<Candidates> &all = branches->back().candidates;
  if (!all.empty() && all.back().chosen == chosen && all.back().reason == line)
    all.back().kernels.push_back(kernel);
  else
    all.push_back({{kernel}, chosen, std::string(line)});
}

}  // namespace

Decision decide(const fa_desc &desc, const std::string &question) {
  Decision decision;
  decision.question = question;
  const Listener listener;
  try {
    decision.kernel = fa_op_kernel_name(create_op(desc).get());
  } catch (const Failure &failure) {
    decision.failure = failure.what();
  }
  for (const std::string &line : listener.lines) add_line(line, &decision.branches);
  if (decision.branches.size() > 1 && decision.branches.front().condition.empty())
    decision.branches.front().condition = "for tensors that the GPU reaches";
  return decision;
}

std::string decision_text(const Decision &decision) {
  std::string text = printable(decision.question) + "\n";
  for (size_t b = 0; b < decision.branches.size(); ++b) {
    const Branch &branch = decision.branches[b];
    const bool last_branch = b + 1 == decision.branches.size();
    std::string indent;
    if (!branch.condition.empty()) {
      text += fmt::format("{} {}\n", last_branch ? "└─" : "├─", printable(branch.condition));
      indent = last_branch ? "   " : "│  ";
    }
    for (size_t i = 0; i < branch.candidates.size(); ++i) {
      const Candidates &c = branch.candidates[i];
      const std::string end = c.chosen ? (c.reason.empty() ? "chosen" : fmt::format("chosen: {}", c.reason))
                                       : fmt::format("no: {}", c.reason);
      for (size_t k = 0; k < c.kernels.size(); ++k) {
        const bool last = i + 1 == branch.candidates.size() && k + 1 == c.kernels.size();
        text += fmt::format("{}{} {:<28} {}\n", indent, last ? "└─" : "├─", c.kernels[k],
                            printable(k == 0 ? end : "no: likewise"));
      }
    }
  }
  if (!decision.failure.empty()) text += fmt::format("nothing runs it: {}\n", printable(decision.failure));
  return text;
}

}  // namespace fa::tool
