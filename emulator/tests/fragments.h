// Kernels around one instruction of a warp: its source registers come from an array of 32 words a register, its results
// go to another one.
#pragma once

#include <string>
#include <vector>

#include "client.h"

namespace emulated {

/// Operands of the instruction are {%s0, ..}, {%d0, ..} and %address, which is the lane's address in shared memory: 16
/// bytes a lane behind 'shared'. text: the instruction, made by the caller.
struct WarpKernel {
  std::string text;
  int sources = 0, results = 0;
  bool wide = false;  // 64-bit registers

  /// "{%s4, %s5}"
  static std::string registers(char name, int first, int count) {
    std::string list;
    for (int i = first; i < first + count; i++)
      list += (i > first ? ", %" : "%") + std::string(1, name) + std::to_string(i);
    return "{" + list + "}";
  }

  /// shared: 512 bytes, which the kernel copies to shared memory before and back after the instruction.
  std::vector<uint64_t> run(const std::vector<uint64_t> &values, std::vector<uint8_t> *shared = nullptr) const {
    std::string type = wide ? "b64" : "b32", bytes = wide ? "8" : "4";
    std::string target = "sm_" + std::to_string(capability()) + (capability() >= 90 ? "a" : "");
    std::string ptx = ".version 8.7\n.target " + target +
                      "\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out, .param .u64 memory) {\n"
                      ".shared .align 128 .b8 tile[512];\n.reg .b32 %lane, %at, %address, %v<4>;\n.reg .b64 %in, %out, "
                      "%memory, %base, %far;\n.reg ." +
                      type + " %s<" + std::to_string(sources + 1) + ">;\n.reg ." + type + " %d<" +
                      std::to_string(results + 1) +
                      ">;\nld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nld.param.u64 %memory, [memory];\n"
                      "mov.u32 %lane, %tid.x;\nmov.u32 %at, tile;\nshl.b32 %address, %lane, 4;\ncvt.u64.u32 %far, "
                      "%address;\nadd.s64 %far, %far, %memory;\nadd.s32 %address, %address, %at;\n"
                      "ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%far];\nst.shared.v4.b32 [%address], {%v0, %v1, %v2, "
                      "%v3};\nbar.warp.sync -1;\nmul.wide.u32 %base, %lane, " +
                      bytes + ";\nadd.s64 %in, %in, %base;\nadd.s64 %out, %out, %base;\n";
    int stride = wide ? 256 : 128;
    for (int i = 0; i < sources; i++)
      ptx += "ld.global." + type + " %s" + std::to_string(i) + ", [%in+" + std::to_string(i * stride) + "];\n";
    ptx += text + "\nbar.warp.sync -1;\n";
    for (int i = 0; i < results; i++)
      ptx += "st.global." + type + " [%out+" + std::to_string(i * stride) + "], %d" + std::to_string(i) + ";\n";
    ptx +=
        "ld.shared.v4.b32 {%v0, %v1, %v2, %v3}, [%address];\nst.global.v4.b32 [%far], {%v0, %v1, %v2, %v3};\nret;\n}\n";
    CUfunction function = kernel(ptx, "k");
    Array<uint8_t> memory(shared ? *shared : std::vector<uint8_t>(512));
    std::vector<uint64_t> result(static_cast<size_t>(results) * 32);
    if (wide) {
      Array<uint64_t> in(values), out(result);
      if (launch(function, {1}, {32}, 0, in.address, out.address, memory.address) != CUDA_SUCCESS) return {};
      result = out.values();
    } else {
      std::vector<uint32_t> narrow(values.begin(), values.end());
      narrow.resize(std::max<size_t>(narrow.size(), 1));
      Array<uint32_t> in(narrow), out(std::vector<uint32_t>(std::max<size_t>(result.size(), 1)));
      if (launch(function, {1}, {32}, 0, in.address, out.address, memory.address) != CUDA_SUCCESS) return {};
      std::vector<uint32_t> values32 = out.values();
      result.assign(values32.begin(), values32.begin() + static_cast<ptrdiff_t>(result.size()));
    }
    if (shared) *shared = memory.values();
    return result;
  }
};

}  // namespace emulated
