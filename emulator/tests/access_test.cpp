// Memory, control flow and warp instructions that nvcc seldom writes: vectors of 256 bits, every atomic operation,
// strong accesses, tables of branches, match, redux of f32, fences.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "one_instruction.h"

namespace {

using emulated::Inputs;
using emulated::run_over;

/// A thread's own 64 bytes of shared memory, whose address is %r6.
const std::string own_shared =
    ".shared .align 64 .b8 s[8192]; mov.u32 %r6, s; mov.u32 %r5, %tid.x; mad.lo.u32 %r6, %r5, 64, %r6;\n";

struct Atomic {
  const char *operation;  // with its type
  uint64_t before, b, c, after;
};

TEST(Access, AtomicsLeaveAndGive) {
  const uint64_t one = std::bit_cast<uint32_t>(1.f), two = std::bit_cast<uint32_t>(2.f),
                 three = std::bit_cast<uint32_t>(3.f);
  const Atomic atomics[] = {
      {"add.u32", 0xffffffff, 2, 0, 1},
      {"min.s32", 5, 0xfffffff0, 0, 0xfffffff0},
      {"max.s32", 5, 0xfffffff0, 0, 5},
      {"min.u32", 5, 0xfffffff0, 0, 5},
      {"inc.u32", 7, 7, 0, 0},
      {"inc.u32", 6, 7, 0, 7},
      {"dec.u32", 0, 7, 0, 7},
      {"dec.u32", 9, 7, 0, 7},
      {"and.b32", 12, 10, 0, 8},
      {"or.b32", 12, 10, 0, 14},
      {"xor.b32", 12, 10, 0, 6},
      {"exch.b32", 12, 10, 0, 10},
      {"cas.b32", 12, 12, 99, 99},
      {"cas.b32", 12, 13, 99, 12},
      {"add.f32", one, two, 0, three},
      {"add.noftz.f16x2", 0x3c004000, 0x3c003c00, 0, 0x40004200},
      {"add.noftz.bf16x2", 0x3f804000, 0x3f803f80, 0, 0x40004040},
      {"add.acq_rel.cta.u32", 1, 2, 0, 3},
      {"add.u64", 1ull << 63, 1ull << 62, 0, 3ull << 62},
      {"max.s64", ~0ull, 1, 0, 1},
      {"cas.b64", 12, 12, 1ull << 40, 1ull << 40},
      {"exch.b64", 12, 1ull << 50, 0, 1ull << 50},
      {"add.f64", std::bit_cast<uint64_t>(1.0), std::bit_cast<uint64_t>(2.0), 0, std::bit_cast<uint64_t>(3.0)}};
  for (const Atomic &a : atomics) {
    bool wide = std::strstr(a.operation, "64"), three_operands = std::strstr(a.operation, "cas");
    std::string d = wide ? "%d" : "%r", type = wide ? ".b64" : ".b32";
    std::string operands = d + "1" + (three_operands ? ", " + d + "2" : "");
    // In shared memory; and in global memory, at the thread's own result.
    std::string in_shared = own_shared + "st.shared" + type + " [%r6], " + d + "0; atom.shared." + a.operation + " " +
                            d + "4, [%r6], " + operands + "; ld.shared" + type + " " + d + "5, [%r6];\n";
    std::string in_global = "st.global" + type + " [%a1], " + d + "0; atom.global." + a.operation + " " + d +
                            "4, [%a1], " + operands + "; ld.global" + type + " " + d + "5, [%a1];\n";
    for (const std::string &body : {in_shared, in_global})
      for (int what : {4, 5}) {
        std::string result = "mov" + type + " " + d + "7, " + d + std::to_string(what) + ";";
        std::vector<uint64_t> got = run_over(body + result, wide ? 'd' : 'r', Inputs(40, {a.before, a.b, a.c}));
        for (uint64_t value : got) ASSERT_EQ(value, what == 4 ? a.before : a.after) << body;
      }
  }
}

TEST(Access, Reductions) {
  // All threads of a warp, on one word and on vectors.
  std::string body =
      ".shared .align 16 .b8 s[64]; mov.u32 %r6, s; st.shared.v4.b32 [%r6], {%r2, %r2, %r2, %r2}; bar.sync 0;\n"
      "red.shared.add.u32 [%r6+4], %r0; bar.sync 0; ld.shared.u32 %r7, [%r6+4];";
  for (uint64_t value : run_over(body, 'r', Inputs(32, {3, 0, 0}))) ASSERT_EQ(value, 96u);
  body =
      "mov.b32 %r5, 0x40000000; st.global.v2.b32 [%a1], {%r5, %r5}; red.global.v2.f32.add [%a1], {%r0, %r1}; "
      "ld.global.u64 %d7, [%a1];";
  for (uint64_t value : run_over(body, 'd', Inputs(8, {std::bit_cast<uint32_t>(1.f), std::bit_cast<uint32_t>(2.f), 0})))
    ASSERT_EQ(value, uint64_t{std::bit_cast<uint32_t>(4.f)} << 32 | std::bit_cast<uint32_t>(3.f));
  body = own_shared + "st.shared.b16 [%r6], %h0; atom.shared.cas.b16 %h4, [%r6], %h0, %h1; ld.shared.u16 %h7, [%r6];";
  for (uint64_t value : run_over(body, 'h', Inputs(8, {7, 9, 0}))) ASSERT_EQ(value, 9u);
  body = own_shared +
         ".reg .b128 x, y; mov.b128 x, {%d0, %d1}; mov.b128 y, {%d2, %d0}; st.shared.b128 [%r6], x;"
         " atom.shared.exch.b128 x, [%r6], y; mov.b128 {%d4, %d7}, x;";
  for (uint64_t value : run_over(body, 'd', Inputs(8, {7, 9, 11}))) ASSERT_EQ(value, 9u);
}

TEST(Access, VectorsAndStrongAccesses) {
  Inputs inputs = emulated::random_inputs(64, 9);
  std::string store = own_shared + "st.shared.v4.b64 [%r6], {%d0, %d1, %d2, %d0};\n";
  std::vector<uint64_t> got =
      run_over(store + "ld.shared.v8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r7, _}, [%r6];", 'r', inputs);
  for (size_t i = 0; i < inputs.size(); i++) ASSERT_EQ(got[i], inputs[i][0] & 0xffffffff);
  got = run_over(store + "ld.shared.v2.s8 {_, %r7}, [%r6+8];", 'r', {{0, 0x8070, 0}});
  EXPECT_EQ(got[0], 0xffffff80u);
  for (std::string order : {"volatile", "relaxed.gpu", "acquire.sys"}) {
    std::string release = order == "acquire.sys" ? "release.sys" : order;
    got =
        run_over("st." + release + ".global.b64 [%a1], %d1; fence.acq_rel.gpu; ld." + order + ".global.b64 %d7, [%a1];",
                 'd', inputs);
    for (size_t i = 0; i < inputs.size(); i++) ASSERT_EQ(got[i], inputs[i][1]) << order;
  }
  got = run_over("membar.gl; fence.sc.sys; nanosleep.u32 20; ld.global.nc.L1::no_allocate.L2::128B.u64 %d7, [%a0+8];",
                 'd', inputs);
  for (size_t i = 0; i < inputs.size(); i++) ASSERT_EQ(got[i], inputs[i][1]);
}

/// cp.async that reads nothing may have any source that is aligned: in no allocation, but at a multiple of its size.
TEST(Access, CopiesOfNothing) {
  auto copy = [](const std::string &source, const std::string &size) {
    return own_shared + "st.shared.u64 [%r6], %d0; mov.u64 %d3, " + source + ";\nsetp.eq.u32 %p1, %r6, %r6;\n" +
           "cp.async.ca.shared.global [%r6], [%d3], " + size + "; cp.async.wait_all; ld.shared.u64 %d7, [%r6];";
  };
  for (const char *size : {"8, 0", "8, %p1", "16, 0", "16, %p1"})
    for (uint64_t value : run_over(copy("16", size), 'd', Inputs(40, {5, 0, 0}))) ASSERT_EQ(value, 0u) << size;
  auto fails = [&](const std::string &size) {
    try {
      run_over(copy("24", size), 'd', Inputs(40, {5, 0, 0}));
    } catch (std::runtime_error &error) {
      return std::string(error.what()).ends_with(std::to_string(CUDA_ERROR_MISALIGNED_ADDRESS)) ? 0 : 2;
    }
    return 1;
  };
  for (const char *size : {"16, 0", "16, %p1", "16"})
    EXPECT_EXIT(std::_Exit(fails(size)), testing::ExitedWithCode(0), "") << size;
}

/// By a program whose accesses before were in bounds.
TEST(AccessFaults, TheWordBeforeNull) {
  for (const char *text : {"mov.u64 %d3, -4; ld.global.u32 %r7, [%d3];", "mov.u64 %d3, -4; ld.u32 %r7, [%d3];",
                           "mov.u64 %d3, 0; st.global.u32 [%d3+-4], %r0;", "mov.u64 %d3, -8; red.add.u64 [%d3], 1;"}) {
    auto code = [&] {
      try {
        run_over(text, 'r', Inputs(1));
      } catch (std::runtime_error &error) {
        return std::string(error.what()).ends_with(" " + std::to_string(CUDA_ERROR_ILLEGAL_ADDRESS)) ? 0 : 2;
      }
      return 1;
    };
    EXPECT_EXIT(std::_Exit(code()), testing::ExitedWithCode(0), "") << text;
  }
}

TEST(Control, TablesOfBranches) {
  std::string body =
      "ts: .branchtargets A, B, C, A;\nbrx.idx %r0, ts;\n"
      "A: mov.u32 %r7, 10; bra E;\nB: mov.u32 %r7, 20; bra E;\nC: mov.u32 %r7, 30;\nE: add.u32 %r7, %r7, %r0;";
  Inputs inputs(96);
  for (size_t i = 0; i < inputs.size(); i++) inputs[i] = {i * 7 % 4, 0, 0};
  std::vector<uint64_t> got = run_over(body, 'r', inputs);
  const uint64_t expected[] = {10, 21, 32, 13};
  for (size_t i = 0; i < inputs.size(); i++) ASSERT_EQ(got[i], expected[inputs[i][0]]);
}

TEST(Control, SpecialRegisters) {
  auto value = [](const char *name) { return run_over(std::string("mov.u32 %r7, %") + name + ";", 'r', Inputs(160)); };
  std::vector<uint64_t> lane = value("laneid"), below = value("lanemask_lt"), above = value("lanemask_ge"),
                        warp = value("warpid");
  for (uint64_t i = 0; i < 160; i++) {
    ASSERT_EQ(lane[i], i % 32);
    ASSERT_EQ(below[i], (uint64_t{1} << i % 32) - 1);
    ASSERT_EQ(above[i], 0xffffffff & ~below[i]);
    ASSERT_EQ(warp[i], i % 128 / 32);
  }
  for (const char *clock : {"clock64", "globaltimer"}) {
    std::vector<uint64_t> later =
        run_over(std::string("mov.u64 %d3, %") + clock + "; mov.u64 %d4, %" + clock + "; sub.u64 %d7, %d4, %d3;", 'd',
                 Inputs(32));
    for (uint64_t passed : later) ASSERT_LT(passed, 1u << 30) << clock;
  }
}

TEST(Control, MatchAndReduce) {
  Inputs inputs(64);
  for (size_t i = 0; i < inputs.size(); i++)
    inputs[i] = {i * i % 5 | i % 2 << 40, std::bit_cast<uint32_t>(static_cast<float>(i) - 20.5f), 0};
  std::vector<uint64_t> any = run_over("match.any.sync.b64 %r7, %d0, -1;", 'r', inputs);
  std::vector<uint64_t> all = run_over("match.all.sync.b32 %r7|%p7, %r2, -1;", 'r', inputs);
  std::vector<uint64_t> least = run_over("redux.sync.min.f32 %r7, %r1, -1;", 'r', inputs);
  std::vector<uint64_t> largest = run_over("redux.sync.max.abs.f32 %r7, %r1, -1;", 'r', inputs);
  for (size_t i = 0; i < inputs.size(); i++) {
    uint64_t same = 0;
    for (size_t k = 0; k < 32; k++) same |= uint64_t{inputs[i / 32 * 32 + k][0] == inputs[i][0]} << k;
    ASSERT_EQ(any[i], same);
    ASSERT_EQ(all[i], 0xffffffffu);
    ASSERT_EQ(least[i], std::bit_cast<uint32_t>(i < 32 ? -20.5f : 11.5f));
    ASSERT_EQ(largest[i], std::bit_cast<uint32_t>(i < 32 ? 20.5f : 42.5f));
  }
}

TEST(ControlFaults, TrapAndBreakpoint) {
  for (const char *text : {"trap;", "brkpt;"}) {
    auto fails = [&] {
      try {
        run_over(text, 'r', Inputs(1));
      } catch (std::runtime_error &) {
        return 0;
      }
      return 1;
    };
    EXPECT_EXIT(std::_Exit(fails()), testing::ExitedWithCode(0), "") << text;
  }
}

}  // namespace
