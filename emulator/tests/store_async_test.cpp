// st.async and red.async, one instruction a kernel: every type and reduction, where they land, when, and which mbarrier
// they signal.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "client.h"
#include "reported.h"

namespace {

using emulated::Array;
using emulated::launch;

constexpr unsigned lanes = 32, place = 16;  // bytes a lane
constexpr const char *completes = ".mbarrier::complete_tx::bytes";

/// Block 1 of a pair executes the instruction: %r1 is the lane's place in block 0, %r2 an mbarrier there (%d1 and %d2:
/// generic addresses of the same), %r4 to %r7 are 16 bytes of the lane, and so are %d4 and %d5. Block 0 has a second
/// mbarrier there and block 1 another at the same place; all three miss `bytes`. out: 16 bytes a lane of block
/// 0's memory before it waits and after, then whether the other mbarriers have ended a phase.
std::string program(const std::string &instruction, unsigned bytes) {
  return ".version 8.1\n.target sm_90a\n.address_size 64\n"
         ".visible .entry k(.param .u64 old, .param .u64 values, .param .u64 out) .reqnctapercluster 2 {\n"
         ".reg .b16 %h<2>; .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .pred %p<6>;\n"
         ".shared .align 16 .b8 tile[512]; .shared .align 8 .b64 bar[2];\n"
         "ld.param.u64 %d10, [old]; ld.param.u64 %d11, [values]; ld.param.u64 %d12, [out];\n"
         "mov.u32 %r10, %tid.x; mov.u32 %r11, %cluster_ctarank; mul.wide.u32 %d13, %r10, 16;\n"
         "add.u64 %d10, %d10, %d13; add.u64 %d11, %d11, %d13; add.u64 %d12, %d12, %d13;\n"
         "shl.b32 %r12, %r10, 4; mov.u32 %r13, tile; add.u32 %r13, %r13, %r12; mov.u32 %r14, bar;\n"
         "ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d10]; st.shared.v4.b32 [%r13], {%r4, %r5, %r6, %r7};\n"
         "setp.ne.u32 %p1, %r10, 0; setp.ne.u32 %p2, %r11, 0;\n@%p1 bra ready;\n"
         "mbarrier.init.shared.b64 [%r14], 1; mbarrier.init.shared.b64 [%r14+8], 1;\n"
         "mbarrier.arrive.expect_tx.shared.b64 _, [%r14], " +
         std::to_string(bytes) + "; mbarrier.arrive.expect_tx.shared.b64 _, [%r14+8], " + std::to_string(bytes) +
         ";\nfence.mbarrier_init.release.cluster;\n"
         "ready:\nbarrier.cluster.arrive; barrier.cluster.wait;\n@!%p2 bra receive;\n"
         "mov.u32 %r15, 0; mapa.shared::cluster.u32 %r1, %r13, %r15; mapa.shared::cluster.u32 %r2, %r14, %r15;\n"
         "cvt.u64.u32 %d14, %r13; cvta.shared.u64 %d14, %d14; mapa.u64 %d1, %d14, %r15;\n"
         "cvt.u64.u32 %d14, %r14; cvta.shared.u64 %d14, %d14; mapa.u64 %d2, %d14, %r15;\n"
         "ld.global.v2.b64 {%d4, %d5}, [%d11]; ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d11];\n" +
         instruction +
         "\nbarrier.cluster.arrive; barrier.cluster.wait;\n@%p1 ret;\n"
         "mbarrier.test_wait.parity.shared.b64 %p3, [%r14], 0; selp.u32 %r16, 1, 0, %p3;\n"
         "st.global.u32 [%d12+1028], %r16;\nret;\n"
         "receive:\nld.volatile.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r13];\n"
         "st.global.v4.b32 [%d12], {%r4, %r5, %r6, %r7};\n"
         "wait:\nmbarrier.try_wait.parity.shared.b64 %p3, [%r14], 0;\n@!%p3 bra wait;\n"
         "ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r13]; st.global.v4.b32 [%d12+512], {%r4, %r5, %r6, %r7};\n"
         "barrier.cluster.arrive; barrier.cluster.wait;\n@%p1 ret;\n"
         "mbarrier.test_wait.parity.shared.b64 %p3, [%r14+8], 0; selp.u32 %r16, 1, 0, %p3;\n"
         "st.global.u32 [%d12+1024], %r16;\nret;\n}\n";
}

using Bytes = std::vector<uint8_t>;

struct Outcome {
  CUresult code;
  Bytes early, late;
  std::array<uint32_t, 2> others;  // whether block 0's second mbarrier and block 1's have ended a phase
};

Outcome run(const std::string &instruction, unsigned bytes, const Bytes &old, const Bytes &values) {
  emulated::start();
  Array<uint8_t> before(old), sent(values), out(Bytes(2 * lanes * place + 8, 0xcc));
  CUresult code = launch(emulated::kernel(program(instruction, bytes), "k"), {2}, {lanes}, 0, before.address,
                         sent.address, out.address);
  if (code != CUDA_SUCCESS) return {code, {}, {}, {}};
  Bytes all = out.values();
  Outcome outcome{code, {all.begin(), all.begin() + lanes * place}, {all.begin() + lanes * place, all.end() - 8}, {}};
  std::memcpy(outcome.others.data(), &all[2 * lanes * place], 8);
  return outcome;
}

Bytes random_bytes(uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes(lanes * place);
  for (uint8_t &byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

/// In order (no seed) nothing lands before somebody waits for it.
bool is_late() {
  const char *seed = std::getenv("FA_EMU_SEED");
  return !seed || std::atoi(seed) == 0;
}

void check(const std::string &instruction, unsigned bytes, const Bytes &old, const Bytes &values,
           const Bytes &expected) {
  Outcome outcome = run(instruction, bytes, old, values);
  ASSERT_EQ(outcome.code, CUDA_SUCCESS) << instruction;
  EXPECT_EQ(outcome.late, expected) << instruction;
  EXPECT_EQ(outcome.others, (std::array<uint32_t, 2>{0, 0}))
      << instruction << " signals an mbarrier that it does not name";
  if (is_late()) {
    EXPECT_EQ(outcome.early, old) << instruction << " lands before anyone waits for it";
  }
}

TEST(StoreAsync, EveryTypeAndVector) {
  struct Form {
    const char *type, *vector, *values;
    unsigned bytes;
  };
  for (const Form &form : {Form{".b32", "", "%r5", 4},
                           {".u32", "", "%r5", 4},
                           {".s32", ".v2", "{%r5, %r6}", 8},
                           {".b32", ".v4", "{%r5, %r6, %r7, %r4}", 16},
                           {".f32", "", "%r5", 4},
                           {".f32", ".v4", "{%r5, %r6, %r7, %r4}", 16},
                           {".b64", "", "%d5", 8},
                           {".u64", "", "%d5", 8},
                           {".s64", ".v2", "{%d5, %d4}", 16},
                           {".f64", "", "%d5", 8},
                           {".f64", ".v2", "{%d5, %d4}", 16}}) {
    Bytes old = random_bytes(1), values = random_bytes(2), expected = old;
    // The vector begins with the lane's second value and goes on around its sixteen bytes.
    unsigned first = form.type[2] == '3' ? 4 : 8;
    for (unsigned lane = 0; lane < lanes; lane++)
      for (unsigned i = 0; i < form.bytes; i++) expected[lane * place + i] = values[lane * place + (first + i) % place];
    check(std::string("st.async.shared::cluster") + completes + form.vector + form.type + " [%r1], " + form.values +
              ", [%r2];",
          form.bytes * lanes, old, values, expected);
  }
}

TEST(StoreAsync, DisplacementsAndGenericAddresses) {
  Bytes old = random_bytes(3), values = random_bytes(4), expected = old;
  for (unsigned lane = 0; lane < lanes; lane++) std::copy_n(&values[lane * place], 8, &expected[lane * place + 8]);
  check(std::string("add.u32 %r2, %r2, 64;\nst.async.weak.shared::cluster") + completes +
            ".v2.b32 [%r1+8], {%r4, %r5}, [%r2-64];",
        8 * lanes, old, values, expected);
  check(std::string("st.async") + completes + ".b64 [%d1+8], %d4, [%d2];", 8 * lanes, old, values, expected);
}

TEST(StoreAsync, OfSomeLanes) {
  Bytes old = random_bytes(5), values = random_bytes(6), expected = old;
  for (unsigned lane = 16; lane < lanes; lane++) std::copy_n(&values[lane * place], 4, &expected[lane * place]);
  check(
      std::string("setp.ge.u32 %p4, %r10, 16;\n@%p4 st.async.shared::cluster") + completes + ".b32 [%r1], %r4, [%r2];",
      4 * 16, old, values, expected);
}

template <class T>
T part(const Bytes &bytes, unsigned lane) {
  T value;
  std::memcpy(&value, &bytes[lane * place], sizeof value);
  return value;
}

/// instruction: everything before the operands; combine: in 64 bits, of which the type's are taken.
template <class T>
void check_reduction(const std::string &name, const std::function<T(T, T)> &combine) {
  Bytes old = random_bytes(7), values = random_bytes(8);
  // Equal, neighbouring, extreme.
  const T special[][2] = {{0, 0}, {5, 5}, {6, 5}, {4, 5}, {0, 5}, {static_cast<T>(-1), 1}, {1, static_cast<T>(-1)}};
  for (unsigned lane = 0; lane < std::size(special); lane++) {
    std::memcpy(&old[lane * place], &special[lane][0], sizeof(T));
    std::memcpy(&values[lane * place], &special[lane][1], sizeof(T));
  }
  Bytes expected = old;
  for (unsigned lane = 0; lane < lanes; lane++) {
    T value = combine(part<T>(old, lane), part<T>(values, lane));
    std::memcpy(&expected[lane * place], &value, sizeof value);
  }
  check("red.async.relaxed.cluster.shared::cluster" + (completes + name) + " [%r1], " +
            (sizeof(T) == 4 ? "%r4" : "%d4") + ", [%r2];",
        sizeof(T) * lanes, old, values, expected);
}

TEST(ReduceAsync, EveryReduction) {
  using u32 = uint32_t;
  using s32 = int32_t;
  using u64 = uint64_t;
  check_reduction<u32>(".inc.u32", [](u32 a, u32 b) { return a >= b ? 0 : a + 1; });
  check_reduction<u32>(".dec.u32", [](u32 a, u32 b) { return a == 0 || a > b ? b : a - 1; });
  check_reduction<u32>(".min.u32", [](u32 a, u32 b) { return a < b ? a : b; });
  check_reduction<s32>(".min.s32", [](s32 a, s32 b) { return a < b ? a : b; });
  check_reduction<u32>(".max.u32", [](u32 a, u32 b) { return a < b ? b : a; });
  check_reduction<s32>(".max.s32", [](s32 a, s32 b) { return a < b ? b : a; });
  check_reduction<u32>(".and.b32", [](u32 a, u32 b) { return a & b; });
  check_reduction<u32>(".or.b32", [](u32 a, u32 b) { return a | b; });
  check_reduction<u32>(".xor.b32", [](u32 a, u32 b) { return a ^ b; });
  check_reduction<u32>(".add.u32", [](u32 a, u32 b) { return a + b; });
  check_reduction<u32>(".add.s32", [](u32 a, u32 b) { return a + b; });
  check_reduction<u64>(".add.u64", [](u64 a, u64 b) { return a + b; });
  check_reduction<u64>(".add.s64", [](u64 a, u64 b) { return a + b; });
}

TEST(ReduceAsync, AllLanesIntoOneWord) {
  Bytes old = random_bytes(9), values = random_bytes(10), expected = old;
  auto sum = part<uint32_t>(old, 0);
  for (unsigned lane = 0; lane < lanes; lane++) sum += part<uint32_t>(values, lane);
  std::memcpy(&expected[0], &sum, sizeof sum);
  check(std::string("sub.u32 %r1, %r1, %r12;\nred.async.relaxed.cluster.shared::cluster") + completes +
            ".add.u32 [%r1], %r4, [%r2];",
        4 * lanes, old, values, expected);
}

/// Text that ptxas refuses is an error that names the line; a use that the running instruction does not allow ends the
/// launch.
TEST(StoreAsync, Errors) {
  auto reported = [](const std::string &instruction) {
    return emulated::reported(
        [&] { std::fprintf(stderr, "ends with %d\n", run(instruction, 4, random_bytes(1), random_bytes(2)).code); });
  };
  std::string store = std::string("st.async.shared::cluster") + completes,
              reduce = std::string("red.async.relaxed.cluster.shared::cluster") + completes;
  for (const std::string &unknown :
       {store + ".v4.b64 [%r1], {%d4, %d5, %d4, %d5}, [%r2];", store + ".b16 [%r1], %h1, [%r2];",
        store + ".b32 [%r1], %r4, [%d2];", store + ".b32 [%r1], %r4;", reduce + ".min.u64 [%r1], %d4, [%r2];",
        reduce + ".inc.s32 [%r1], %r4, [%r2];", reduce + ".and.b64 [%r1], %d4, [%r2];",
        reduce + ".add.b32 [%r1], %r4, [%r2];", reduce + ".or.u32 [%r1], %r4, [%r2];",
        reduce + ".add.f32 [%r1], %r4, [%r2];", reduce + ".add.v2.u32 [%r1], {%r4, %r5}, [%r2];",
        reduce + ".u32 [%r1], %r4, [%r2];"})
    EXPECT_NE(reported(unknown).find("gives 218"), std::string::npos) << unknown;
  EXPECT_NE(reported(store + ".b64 [%r1+4], %d4, [%r2];").find("ends with 716"), std::string::npos);
  EXPECT_NE(reported(store + ".b32 [%r1], %r4, [%r2+4];").find("ends with 716"), std::string::npos);
  EXPECT_NE(reported(store + ".b32 [%r1], %r4, [%r1];").find("ends with 715"), std::string::npos);
}

}  // namespace
