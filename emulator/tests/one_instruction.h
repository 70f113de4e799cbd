// Runs one instruction, or a few, over many inputs: a kernel is written around their text. Every thread finds its three
// inputs in %d0..%d2 (64 bits), %r0..%r2 (their low 32 bits) and %h0..%h2 (16), and leaves the result in %d7, %r7, %h7
// or %p7.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "client.h"

namespace emulated {

using Inputs = std::vector<std::array<uint64_t, 3>>;

/// result: 'd', 'r', 'h' or 'p', the kind of register that holds it.
inline std::string kernel_around(const std::string &body, char result) {
  std::string text =
      ".version 9.0\n.target sm_100a\n.address_size 64\n"
      ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n) {\n"
      ".reg .b16 %h<8>; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .b32 %x<4>; .reg .b64 %a<4>; .reg .pred %p<8>;\n"
      "mov.u32 %x0, %ctaid.x; mov.u32 %x1, %ntid.x; mov.u32 %x2, %tid.x; mad.lo.u32 %x0, %x0, %x1, %x2;\n"
      "ld.param.u32 %x1, [n]; setp.ge.u32 %p0, %x0, %x1; @%p0 ret;\n"
      "ld.param.u64 %a0, [in]; ld.param.u64 %a1, [out]; mul.wide.u32 %a2, %x0, 24; add.u64 %a0, %a0, %a2;\n"
      "mul.wide.u32 %a2, %x0, 8; add.u64 %a1, %a1, %a2;\n"
      "ld.global.u64 %d0, [%a0]; ld.global.u64 %d1, [%a0+8]; ld.global.u64 %d2, [%a0+16];\n"
      "mov.b32 %r7, 0; mov.b64 %d7, 0; mov.b16 %h7, 0; setp.ne.u32 %p7, %x0, %x0;\n";
  for (char i : {'0', '1', '2'}) {
    std::string n(1, i);
    text += "cvt.u32.u64 %r" + n + ", %d" + n + "; cvt.u16.u64 %h" + n + ", %d" + n + ";\n";
  }
  text += body + "\n";
  if (result == 'r') text += "cvt.u64.u32 %d7, %r7;\n";
  if (result == 'h') text += "cvt.u64.u16 %d7, %h7;\n";
  if (result == 'p') text += "selp.u64 %d7, 1, 0, %p7;\n";
  return text + "st.global.u64 [%a1], %d7;\nret;\n}\n";
}

inline std::vector<uint64_t> run_over(const std::string &body, char result, const Inputs &inputs) {
  start();
  CUfunction function = kernel(kernel_around(body, result), "k");
  Array<std::array<uint64_t, 3>> in(inputs);
  Array<uint64_t> out(std::vector<uint64_t>(inputs.size(), 0xbad));
  unsigned n = static_cast<unsigned>(inputs.size());
  CUresult ended = launch(function, {(n + 127) / 128}, {128}, 0, in.address, out.address, n);
  if (ended != CUDA_SUCCESS) throw std::runtime_error(body + " ends with " + std::to_string(ended));
  return out.values();
}

/// Inputs 0 to count - 1 in the first place.
inline Inputs all_below(uint64_t count) {
  Inputs inputs(count);
  for (uint64_t i = 0; i < count; i++) inputs[i] = {i, 0, 0};
  return inputs;
}

/// Random bits, of which every second word is near special values: zeros, ones, powers of two, limits.
inline Inputs random_inputs(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  auto word = [&]() -> uint64_t {
    uint64_t bits = random();
    switch (random() % 8) {
      case 0:
        return bits % 5;
      case 1:
        return 0 - bits % 5;
      case 2:
        return uint64_t{1} << bits % 64;
      case 3:
        return (uint64_t{1} << bits % 64) - 1;
      default:
        return bits;
    }
  };
  Inputs inputs(count);
  for (auto &row : inputs) row = {word(), word(), word()};
  return inputs;
}

}  // namespace emulated
