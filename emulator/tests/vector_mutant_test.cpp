// Vectors in shared memory of which some elements are uninitialised: nvcc makes such loads and stores of fields and the
// gaps between them. They are no fault until an element is used.
#include <gtest/gtest.h>

#include "client.h"
#include "reported.h"

namespace {

using emulated::Array;
using emulated::launch;

/// One thread stores {1, 2, 3, uninitialised}, loads the vector and adds up the initialised elements. Faults: 1 the
/// fourth counts, too; 2 its place is read alone; 3 its register is stored alone; 4 a vector is read that nobody has
/// written; 5 all four of a stored vector are uninitialised; 6 others read the stored vector without waiting.
const char *const text = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry vectors(.param .u64 to, .param .u32 fault) {
  .reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %rd<4>;
  .shared .align 16 .b8 tile[64];
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, tile;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra other;
  mov.u32 %r4, 1;
  mov.u32 %r5, 2;
  mov.u32 %r18, 3;
  st.shared.v4.u32 [%r3], {%r4, %r5, %r18, %r20};
  ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r3];
  add.u32 %r10, %r6, %r7;
  add.u32 %r10, %r10, %r8;
  setp.ne.u32 %p2, %r1, 1;
  @%p2 bra not_used;
  add.u32 %r10, %r10, %r9;
not_used:
  setp.eq.u32 %p3, %r1, 2;
  @%p3 ld.shared.u32 %r11, [%r3+12];
  setp.eq.u32 %p4, %r1, 3;
  @%p4 st.shared.u32 [%r3+16], %r21;
  setp.eq.u32 %p5, %r1, 4;
  @%p5 ld.shared.v2.u32 {%r12, %r13}, [%r3+32];
  setp.eq.u32 %p6, %r1, 5;
  @%p6 st.shared.v2.u32 [%r3+48], {%r22, %r23};
  st.shared.u32 [%r3+12], %r10;
  ld.shared.v4.u32 {%r14, %r15, %r16, %r17}, [%r3];
  st.global.u32 [%rd1], %r17;
  bra patient;
other:
  setp.ne.u32 %p7, %r1, 6;
  @%p7 bra patient;
  ld.shared.v4.u32 {%r14, %r15, %r16, %r17}, [%r3];
patient:
  bar.sync 0;
  ret;
}
)";

std::string vectors(int fault) {
  return emulated::reported([&] {
    emulated::start();
    Array<int> to(std::vector<int>(1));
    launch(emulated::kernel(text, "vectors"), {1}, {64}, 0, to.address, fault);
    if (fault == 0 && to.values()[0] != 6) std::fputs("a wrong sum\n", stderr);
  });
}

void expect(int fault, const char *part) {
  const std::string report = vectors(fault);
  EXPECT_NE(report.find(part), std::string::npos) << report;
}

TEST(Vector, CleanTwin) {
  EXPECT_EQ(vectors(0), "");
}
TEST(Vector, AnUninitialisedElementIsUsed) {
  expect(1, "register %r9 is read and was never written: line 18 (ld.shared.v4.u32) loads it");
}
TEST(Vector, AnUninitialisedPlaceIsRead) {
  expect(2, "which was never written");
}
TEST(Vector, AnUninitialisedRegisterIsStored) {
  expect(3, "register %r21 is read and was never written");
}
TEST(Vector, AnUninitialisedVectorIsRead) {
  expect(4, "which was never written");
}
TEST(Vector, AnUninitialisedVectorIsStored) {
  expect(5, "register %r22 is read and was never written");
}
TEST(Vector, OthersDoNotWait) {
  expect(6, "race): ");
}

}  // namespace
