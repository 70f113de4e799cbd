// Kernels of a few instructions that work on words, and the report of one launch.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "mutant.h"

namespace words {

using emulated::Array;
using emulated::expect_report;
using emulated::launch;

/// A kernel of these instructions; words and ready are its parameters (%rd1, %rd2), %r1 is the thread's number, %r2 the
/// block's, %rd3 the thread's word.
inline std::string kernel_of(const std::string &body) {
  return R"(
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 words, .param .u64 ready) {
  .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .f32 %f<16>;
  .shared .align 1024 .b8 tile[8192];
  .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [words];
  ld.param.u64 %rd2, [ready];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd3, %rd3, %rd1;
)" + body +
         "\n  ret;\n}\n";
}

struct Shape {
  unsigned blocks = 1, threads = 32;
};

/// The report of one launch on 256 words of zeros, and the first words afterwards.
inline std::string report_of(const std::string &body, Shape shape = {}, std::vector<unsigned> expected = {}) {
  return emulated::reported([&] {
    emulated::start();
    Array<unsigned> words(std::vector<unsigned>(256)), ready(std::vector<unsigned>(64));
    launch(emulated::kernel(kernel_of(body), "k"), {shape.blocks}, {shape.threads}, 0, words.address, ready.address);
    if (expected.empty()) return;
    std::vector<unsigned> got = words.values();
    got.resize(expected.size());
    if (got != expected) std::fprintf(stderr, "wrong results: the first word is %u\n", got[0]);
  });
}

/// A flag (ready), set and read.
const std::string release = "st.release.gpu.global.u32 [%rd2], 1;", acquire = "ld.acquire.gpu.global.u32 %r4, [%rd2];";

}  // namespace words
