// Kernels around tcgen05 instructions: tensor memory filled with known cells, the instructions under test, the cells
// again.
#pragma once

#include <string>
#include <vector>

#include "client.h"
#include "tensor_layout.h"

namespace tcgen05 {

constexpr int threads = 128, columns_kept = 256;

inline std::string registers(const char *name, int count) {
  std::string text = "{";
  for (int i = 0; i < count; i++) text += (i ? ", %" : "%") + std::string(name) + std::to_string(i);
  return text + "}";
}

/// A kernel of 128 threads: allocates all columns, puts an image into shared memory and cells into columns 0 to 255 of
/// tensor memory (thread by thread, 32x32b), runs the body, and gives the same columns back.
inline std::string program(const std::string &body, int shared_bytes, bool give_back = true, const char *group = "1",
                           const std::string &target = "sm_100a") {
  std::string g = std::string("cta_group::") + group, n = std::to_string(shared_bytes);
  std::string text =
      ".version 8.8\n.target " + target +
      "\n.address_size 64\n.extern .shared .align 1024 .b8 memory[];\n"
      ".shared .align 8 .b64 barrier;\n.shared .b32 where;\n"
      ".visible .entry k(.param .u64 image, .param .u64 cells, .param .u64 extra, .param .u64 da, .param .u64 db,"
      " .param .u32 idesc, .param .u32 accumulate) ";
  if (g == "cta_group::2") text += ".reqnctapercluster 2 ";
  text +=
      "{\n.reg .b32 %d<128>;\n.reg .b32 %a<8>;\n.reg .b32 %t<20>;\n"
      ".reg .b64 %r<12>;\n.reg .pred %p<6>;\n.reg .b16 %h<2>;\nmov.u32 %t0, %tid.x;\nmov.u32 %t9, %cluster_ctarank;\n"
      "mul.lo.u32 %t8, %t9, " +
      n +
      ";\ncvt.u64.u32 %r9, %t8;\nld.param.u64 %r0, [image];\nadd.u64 %r0, %r0, %r9;\nmov.u32 %t1, memory;\n"
      "mul.lo.u32 %t2, %t0, 16;\nloop:\ncvt.u64.u32 %r1, %t2;\nadd.u64 %r1, %r1, %r0;\nadd.u32 %t3, %t1, %t2;\n"
      "ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%r1];\nst.shared.v4.u32 [%t3], {%a0, %a1, %a2, %a3};\n"
      "add.u32 %t2, %t2, 2048;\nsetp.lt.u32 %p0, %t2, " +
      n +
      ";\n@%p0 bra loop;\nmov.u32 %t4, barrier;\nsetp.eq.u32 %p1, %t0, 0;\n"
      "@%p1 mbarrier.init.shared.b64 [%t4], 1;\nfence.proxy.async;\nshr.u32 %t5, %t0, 5;\nsetp.eq.u32 %p2, %t5, 0;\n"
      "@!%p2 bra allocated;\nmov.u32 %t6, where;\ntcgen05.alloc." +
      g +
      ".sync.aligned.shared::cta.b32 [%t6], 512;\n"
      "tcgen05.relinquish_alloc_permit." +
      g +
      ".sync.aligned;\nallocated:\nbarrier.cluster.arrive;\n"
      "barrier.cluster.wait;\nbar.sync 0;\nld.shared.u32 %t7, [where];\nshl.b32 %t5, %t5, 21;\n"
      "add.u32 %t10, %t7, %t5;\nld.param.u64 %r2, [cells];\nmul.lo.u32 %t11, %t9, 128;\nadd.u32 %t11, %t11, %t0;\n"
      "mul.wide.u32 %r3, %t11, 1024;\nadd.u64 %r2, %r2, %r3;\nld.param.u64 %r4, [extra];\n"
      "mul.wide.u32 %r5, %t11, 512;\nadd.u64 %r4, %r4, %r5;\nld.param.u64 %r6, [da];\nld.param.u64 %r7, [db];\n"
      "mov.u32 %t14, 0xaaaaaaaa;\nmov.u32 %t15, 0;\nld.param.u32 %t12, [idesc];\nld.param.u32 %t13, "
      "[accumulate];\nsetp.ne.u32 %p3, %t13, 0;\n";
  for (int half = 0; half < 2; half++) {
    for (int i = 0; i < 128; i++)
      text += "ld.global.u32 %d" + std::to_string(i) + ", [%r2+" + std::to_string(512 * half + 4 * i) + "];\n";
    text += "tcgen05.st.sync.aligned.32x32b.x128.b32 [%t10+" + std::to_string(128 * half) + "], " +
            registers("d", 128) + ";\n";
  }
  text +=
      "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\nbarrier.cluster.arrive;\n"
      "barrier.cluster.wait;\nbar.sync 0;\ntcgen05.fence::after_thread_sync;\n" +
      body + "tcgen05.fence::before_thread_sync;\nbar.sync 0;\ntcgen05.fence::after_thread_sync;\n";
  for (int half = 0; half < 2; half++) {
    text += "tcgen05.ld.sync.aligned.32x32b.x128.b32 " + registers("d", 128) + ", [%t10+" + std::to_string(128 * half) +
            "];\ntcgen05.wait::ld.sync.aligned;\n";
    for (int i = 0; i < 128; i++)
      text += "st.global.u32 [%r2+" + std::to_string(512 * half + 4 * i) + "], %d" + std::to_string(i) + ";\n";
  }
  text += "barrier.cluster.arrive;\nbarrier.cluster.wait;\nbar.sync 0;\n";
  if (give_back) text += "@%p2 tcgen05.dealloc." + g + ".sync.aligned.b32 %t7, 512;\n";
  return text + "ret;\n}\n";
}

inline std::string commit_and_wait(const char *group) {
  return std::string("@%p1 tcgen05.commit.cta_group::") + group +
         ".mbarrier::arrive::one.shared::cluster.b64 [%t4];\nspin:\n"
         "mbarrier.try_wait.parity.shared::cta.b64 %p4, [%t4], 0;\n@!%p4 bra spin;\n"
         "tcgen05.fence::after_thread_sync;\n";
}

struct Outcome {
  CUresult result;
  std::vector<uint32_t> cells, extra;  // 256 columns a lane; 128 values a thread
};

inline Outcome run(const std::string &text, const std::vector<uint8_t> &image, const std::vector<uint32_t> &cells,
                   uint64_t da = 0, uint64_t db = 0, uint32_t idesc = 0, bool accumulate = true, unsigned blocks = 1) {
  std::vector<uint32_t> extra(threads * 128 * blocks);
  emulated::start();
  emulated::Array<uint8_t> d_image(image);
  emulated::Array<uint32_t> d_cells(cells), d_extra(extra);
  CUfunction k = emulated::kernel(text, "k");
  emulated::call("cuFuncSetAttribute", k, 8, static_cast<int>(image.size()));
  unsigned shared = static_cast<unsigned>(image.size()) / blocks;
  CUresult result = emulated::launch(k, {blocks}, {threads}, shared, d_image.address, d_cells.address, d_extra.address,
                                     da, db, idesc, unsigned{accumulate});
  if (result != CUDA_SUCCESS) return {result, cells, extra};
  return {result, d_cells.values(), d_extra.values()};
}

inline uint64_t descriptor(uint32_t address, const tensor::Layout &layout) {
  uint64_t mode = layout.width == 16 ? 0 : layout.atoms32 ? 1 : layout.width == 128 ? 2 : layout.width == 64 ? 4 : 6;
  return (address & 0x3ffff) >> 4 | uint64_t(layout.leading >> 4) << 16 | uint64_t(layout.stride >> 4) << 32 |
         uint64_t{1} << 46 | mode << 61;
}

}  // namespace tcgen05
