// Values that nobody has written among the scales of a product (mma with .block_scale). Run with FA_EMU_CHECK=2.
#include "mutant.h"

namespace {

/// One warp stores a product, or, without its fault, drops it. Fault 1: nobody has written the scales of A.
const std::string text = R"(
.version 8.7
.target sm_120a
.address_size 64
.visible .entry scaled(.param .u64 words, .param .u32 fault) {
  .reg .pred %p<2>; .reg .b32 %r<20>; .reg .f32 %f<6>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  mov.u32 %r3, 0;
  mov.f32 %f1, 0f00000000;
  mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0 {%f2, %f3, %f4, %f5},
    {%r3, %r3, %r3, %r3}, {%r3, %r3}, {%f1, %f1, %f1, %f1}, {%r9}, {0, 0}, {%r3}, {0, 0};
  setp.eq.u32 %p1, %r1, 1;
  selp.f32 %f1, %f2, %f1, %p1;
  st.global.f32 [%rd3], %f1;
  ret;
}
)";

std::string scaled(int fault) {
  return emulated::report_of(text, "scaled", {1}, {32}, fault);
}

TEST(Scaled, CleanTwin) {
  EXPECT_EQ(scaled(0), "");
}
TEST(Scaled, AScaleOfAProduct) {
  emulated::expect_report(scaled(1), "register %r9 is read and was never written");
}

}  // namespace
