// The provided functions. Their parameters are read from the caller's .param variables in local memory.
#include "exec/builtin.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "exec/access.h"
#include "exec/fault.h"
#include "exec/launch.h"
#include "exec/print.h"
#include "memory/device_heap.h"

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

/// vprintf(format, arguments): every lane's text, in their order. The result is the text's length.
void print(Warp &warp, const Instruction &instruction, const CallSite &site, uint32_t mask) {
  std::string all;
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    uint32_t lane = static_cast<uint32_t>(__builtin_ctz(rest));
    uint64_t arguments = builtin_argument(warp, site, lane, 1);
    auto read = [&](uint32_t offset, uint32_t bytes) {
      Resolved memory;
      memory.address[lane] = arguments + offset;
      resolve(warp, instruction, ptx::Space::generic, 1u << lane, bytes, bytes, memory);
      uint64_t value = 0;
      std::memcpy(&value, memory.at[lane], bytes);
      return value;
    };
    auto text = [&](uint64_t address) { return text_at(warp, instruction, lane, address); };
    std::string line = format_print(text(builtin_argument(warp, site, lane, 0)), read, text);
    set_builtin_result(warp, site, lane, line.size());
    all += line;
  }
  const auto &out = warp.cta->launch->print;
  if (out)
    out(all);
  else
    std::fwrite(all.data(), 1, all.size(), stdout);
}

void allocate(Warp &warp, const Instruction &, const CallSite &site, uint32_t mask) {
  memory::DeviceHeap *heap = warp.cta->launch->heap;
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    uint32_t lane = static_cast<uint32_t>(__builtin_ctz(rest));
    set_builtin_result(warp, site, lane, heap ? heap->allocate(builtin_argument(warp, site, lane, 0)) : 0);
  }
}

void release(Warp &warp, const Instruction &instruction, const CallSite &site, uint32_t mask) {
  memory::DeviceHeap *heap = warp.cta->launch->heap;
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    uint32_t lane = static_cast<uint32_t>(__builtin_ctz(rest));
    uint64_t address = builtin_argument(warp, site, lane, 0);
    if (address != 0 && !(heap && heap->release(address)))
      fault(warp, instruction, FaultKind::illegal_address, static_cast<int>(lane),
            "free of an address that malloc did not return, or that was freed already");
  }
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
  if (name == "vprintf") return print;
  if (name == "malloc") return allocate;
  if (name == "free") return release;
  return nullptr;
}

}  // namespace fa::emu
