// PTX that the emulator does not know is an error when the kernel is asked for, and the error names line and text.
#include <gtest/gtest.h>

#include "client.h"
#include "reported.h"

namespace {

/// Instructions that ptxas takes for sm_100a, sm_90a or less.
const char *const unknown[] = {
    "cvt.rs.f16x2.f32 %r0, %f0, %f1, %r1;",
    "cvt.rs.satfinite.e4m3x4.f32 %r0, {%f0, %f1, %f2, %f3}, %r1;",
    "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8x16.b6x16_p32 {%r0, %r1}, [memory];",
    "st.async.mmio.release.sys.global.u32 [%rd0], %r1;",
    "red.async.mmio.release.sys.global.add.u32 [%rd0], %r1;",
    "cp.async.bulk.tensor.3d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes [memory], [%rd0, {%r0, %r1, "
    "%r2}], [%r5], {%h0, %h1};",
    "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r4, %r5}, {%f0, %f1, "
    "%f2, %f3}, %r6, 0;",
    "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, %r0, 0, %p0, 1, 1, 0, 0;",
    "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {%r0, %r1, %r2, %r3}, %rd0, %rd1, %p0;",
    "tcgen05.mma.sp.cta_group::1.kind::f16 [%r0], %rd0, %rd1, [%r3], %r1, %p0;",
    "tcgen05.mma.ws.cta_group::1.kind::f16.collector::b0::fill [%r0], [%r2], %rd1, %r1, %p0, %rd3;",
    "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [%r0], %rd0, %rd1, %r1, [%r2], [%r3], %p0;",
    "tcgen05.shift.cta_group::1.down [%r0];",
    "tcgen05.cp.cta_group::1.4x256b [%r0], %rd0;",
    "tcgen05.cp.cta_group::1.128x256b.b8x16.b6x16_p32 [%r0], %rd0;",
    "multimem.red.relaxed.sys.global.add.f32 [%rd0], %f0;",
    "tex.2d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%rd0, {%r0, %r1}];",
    "vadd.s32.s32.s32 %r0, %r1, %r2;",
    "alloca.u64 %rd0, 64, 16;",
};

std::string device() {
  const char *name = std::getenv("FA_EMU_DEVICE");
  return name ? name : "sm_100a";
}

TEST(Unsupported, NamesLineAndText) {
  for (std::string instruction : unknown) {
    std::string text =
        ".version 9.0\n.target " + device() +
        "\n.address_size 64\n.visible .entry k() {\n"
        ".reg .b16 %h<2>; .reg .b32 %r<7>; .reg .b64 %rd<4>; .reg .b128 %q<1>; .reg .f32 %f<4>; .reg .pred %p<1>;\n"
        ".shared .align 128 .b8 memory[128];\n" +
        instruction + "\nret;\n}\n";
    std::string report = emulated::reported([&] {
      emulated::start();
      emulated::kernel(text, "k");
    });
    EXPECT_NE(report.find("PTX line 7"), std::string::npos) << report;
    EXPECT_NE(report.find(instruction), std::string::npos) << report;
    EXPECT_NE(report.find("cuModuleGetFunction gives 218"), std::string::npos) << report;
  }
}

/// Instructions that ptxas refuses for sm_75, whatever the device has.
const char *const of_later_targets[] = {
    "wgmma.fence.sync.aligned; | sm_90a",
    "setmaxnreg.dec.sync.aligned.u32 24; | sm_90a,",
    "tensormap.replace.tile.global_address.global.b1024.b64 [%rd0], %rd1; | sm_90a,",
    "tcgen05.fence::before_thread_sync; | sm_100a,",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r0], [%r1]; | sm_100 or",
    "cp.async.bulk.commit_group; | sm_90 or",
    "mbarrier.try_wait.parity.shared.b64 %p0, [%r0], 0; | sm_90 or",
    "mapa.shared::cluster.u32 %r0, %r1, %r2; | sm_90 or",
    "elect.sync _|%p0, -1; | sm_90 or",
    "griddepcontrol.wait; | sm_90 or",
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r0], {%r1}; | sm_90 or",
    "barrier.cluster.arrive; | sm_90 or",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r0], %r1, [%r2]; | sm_90 or",
    "mbarrier.init.shared.b64 [%r0], 1; | sm_80 or",
    "cp.async.wait_all; | sm_80 or",
    "redux.sync.add.s32 %r0, %r1, -1; | sm_80 or",
};

TEST(Unsupported, NeedsALaterTarget) {
  for (std::string line : of_later_targets) {
    std::string instruction = line.substr(0, line.find(" | ")), needs = line.substr(line.rfind("| ") + 2);
    std::string text =
        ".version 9.0\n.target sm_75\n.address_size 64\n.visible .entry k() {\n"
        ".reg .b32 %r<7>; .reg .b64 %rd<4>; .reg .pred %p<1>;\n" +
        instruction + "\nret;\n}\n";
    std::string report = emulated::reported([&] {
      emulated::start();
      emulated::kernel(text, "k");
    });
    EXPECT_NE(report.find("needs .target " + needs), std::string::npos) << report;
    EXPECT_NE(report.find("and the module has sm_75"), std::string::npos) << report;
    EXPECT_NE(report.find("cuModuleGetFunction gives 218"), std::string::npos) << report;
  }
}

}  // namespace
