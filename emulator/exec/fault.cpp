// Where a fault happened, in words.
#include "exec/fault.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "exec/cta.h"
#include "exec/launch.h"

namespace fa::emu {
namespace {

constexpr size_t longest_name = 160;

/// Leaves out text in brackets of this depth or deeper.
std::string without_brackets(std::string_view text, int deep) {
  std::string result;
  int depth = 0;
  for (char c : text) {
    if (c == '>' || c == ')') depth--;
    if (depth < deep) result += c;
    if (c == '<' || c == '(') depth++;
    if ((c == '<' || c == '(') && depth == deep) result += "...";
  }
  return result;
}

}  // namespace

std::string readable_name(const std::string &symbol) {
  if (!symbol.starts_with("_Z")) return symbol;
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status),
                                                   &std::free);
  if (status != 0) return symbol;
  std::string name = text.get();
  for (int deep = 2; deep >= 1 && name.size() > longest_name; deep--) name = without_brackets(text.get(), deep);
  return name;
}

std::string_view name_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::illegal_address:
      return "illegal address";
    case FaultKind::misaligned_address:
      return "misaligned address";
    case FaultKind::illegal_instruction:
      return "illegal instruction";
    case FaultKind::divergence:
      return "divergence";
    case FaultKind::deadlock:
      return "deadlock";
    case FaultKind::assertion:
      return "assertion";
    case FaultKind::trap:
      return "trap";
    case FaultKind::stack_overflow:
      return "stack overflow";
    case FaultKind::timeout:
      return "launch timeout";
    case FaultKind::check:
      return "check";
  }
  return "fault";
}

std::string Fault::what() const {
  std::string text;
  if (kind != FaultKind::check) text = std::string(name_of(kind)) + ": ";  // findings have their class before them
  text += message;
  if (kernel.empty()) return text;
  text += " [kernel " + readable_name(kernel);
  if (kind == FaultKind::timeout) return text + "]";
  text += ", block (" + std::to_string(cta[0]) + "," + std::to_string(cta[1]) + "," + std::to_string(cta[2]) + ")";
  text += ", warp " + std::to_string(warp);
  if (lane >= 0) text += ", lane " + std::to_string(lane);
  if (ptx_line) text += ", PTX line " + std::to_string(ptx_line);
  if (!source.empty()) text += ", " + source;
  text += "]";
  if (!ptx_text.empty()) text += " " + ptx_text;
  return text;
}

Fault make_fault(const Warp &warp, const Instruction &instruction, FaultKind kind, int lane, std::string message) {
  const Program &program = *warp.cta->launch->program;
  uint32_t pc = static_cast<uint32_t>(&instruction - program.code.data());
  const ptx::Instruction &source = program.source(pc);
  Fault result;
  result.kind = kind;
  result.message = std::move(message);
  result.kernel = program.name;
  result.ptx_line = source.line;
  result.ptx_text = program.module->text_of_line(source.line);
  result.source = program.module->name_of(source.source);
  for (int d = 0; d < 3; d++) result.cta[d] = warp.cta->id[d];
  result.warp = warp.index;
  result.lane = lane;
  return result;
}

void fault(const Warp &warp, const Instruction &instruction, FaultKind kind, int lane, std::string message) {
  throw make_fault(warp, instruction, kind, lane, std::move(message));
}

}  // namespace fa::emu
