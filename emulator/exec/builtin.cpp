// The provided functions. Their parameters are read from the caller's .param variables in local memory.
#include "exec/builtin.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "exec/access.h"
#include "exec/fault.h"
#include "exec/launch.h"

namespace fa::emu {
namespace {

uint8_t *caller_variable(const Warp &warp, const ParameterCopy &copy, uint32_t lane) {
  return warp.local + size_t{warp.local_stride} * lane + warp.frame->local_base + copy.caller;
}

/// A string of the program, by its generic address; cut where memory ends.
std::string text_at(Warp &warp, const Instruction &instruction, uint32_t lane, uint64_t address) {
  std::string text;
  for (char c; text.size() < 4096; text += c) {
    Resolved memory;
    memory.address[lane] = address + text.size();
    resolve(warp, instruction, ptx::Space::generic, 1u << lane, 1, 1, memory);
    c = static_cast<char>(*memory.at[lane]);
    if (c == '\0') break;
  }
  return text;
}

/// __assertfail(message, file, line, function, char size)
void assert_fail(Warp &warp, const Instruction &instruction, const CallSite &site, uint32_t mask) {
  uint32_t lane = static_cast<uint32_t>(__builtin_ctz(mask));
  auto text = [&](size_t i) { return text_at(warp, instruction, lane, builtin_argument(warp, site, lane, i)); };
  fault(warp, instruction, FaultKind::assertion, static_cast<int>(lane),
        text(1) + ":" + std::to_string(builtin_argument(warp, site, lane, 2)) + ": " + text(3) + ": assertion `" +
            text(0) + "` failed");
}

}  // namespace

uint64_t builtin_argument(const Warp &warp, const CallSite &site, uint32_t lane, size_t i) {
  uint64_t value = 0;
  if (i < site.arguments.size())
    std::memcpy(&value, caller_variable(warp, site.arguments[i], lane), std::min(site.arguments[i].bytes, 8u));
  return value;
}

void set_builtin_result(Warp &warp, const CallSite &site, uint32_t lane, uint64_t value) {
  if (!site.results.empty())
    std::memcpy(caller_variable(warp, site.results[0], lane), &value, std::min(site.results[0].bytes, 8u));
}

Builtin builtin_of(std::string_view name) {
  if (name == "__assertfail") return assert_fail;
  return nullptr;
}

}  // namespace fa::emu
