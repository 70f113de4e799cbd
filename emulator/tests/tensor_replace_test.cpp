// A kernel changes a tensor map, gives it to the async proxy and loads a box by it.
#include <gtest/gtest.h>

#include <numeric>

#include "client.h"
#include "exec/tensor_map.h"

namespace {

using emulated::Array;
using emulated::launch;

struct alignas(64) Map {
  uint8_t bytes[fa::emu::tensor_map_bytes];
};

constexpr unsigned box_width = 8, box_height = 4;  // an element a lane

/// extra: further changes of the map in shared memory.
std::string program(const std::string &extra) {
  std::string text =
      ".version 8.6\n.target sm_90a\n.address_size 64\n"
      ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 place, .param .u64 tensor, .param .u64 out,"
      " .param .u32 width, .param .u32 height, .param .u64 pitch, .param .u32 x, .param .u32 y) {\n"
      ".reg .b32 %r<12>; .reg .b64 %rd<12>; .reg .pred %p<4>;\n"
      ".shared .align 128 .b8 copy[128]; .shared .align 128 .b8 tile[128]; .shared .align 8 .b64 barrier;\n"
      "ld.param.u64 %rd1, [place]; ld.param.u64 %rd2, [tensor]; ld.param.u64 %rd3, [out]; ld.param.u64 %rd4, [pitch];\n"
      "ld.param.u32 %r1, [width]; ld.param.u32 %r2, [height]; ld.param.u32 %r3, [x]; ld.param.u32 %r4, [y];\n"
      "mov.u32 %r5, %tid.x; setp.eq.u32 %p1, %r5, 0;\n@!%p1 bra changed;\n";
  for (int at = 0; at < 128; at += 8) {
    std::string offset = std::to_string(at);
    text += "ld.param.u64 %rd5, [map+" + offset + "]; st.shared.u64 [copy+" + offset + "], %rd5;\n";
  }
  std::string change = "tensormap.replace.tile.", where = ".shared::cta.b1024";
  text += change + "global_address" + where + ".b64 [copy], %rd2;\n" + change + "rank" + where + ".b32 [copy], 1;\n" +
          change + "global_dim" + where + ".b32 [copy], 0, %r1;\n" + change + "global_dim" + where +
          ".b32 [copy], 1, %r2;\n" + change + "global_stride" + where + ".b64 [copy], 0, %rd4;\n" + change + "box_dim" +
          where + ".b32 [copy], 0, 8;\n" + change + "box_dim" + where + ".b32 [copy], 1, 4;\n" + change +
          "element_stride" + where + ".b32 [copy], 1, 1;\n" + change + "elemtype" + where + ".b32 [copy], 2;\n" +
          change + "interleave_layout" + where + ".b32 [copy], 0;\n" + change + "swizzle_mode" + where +
          ".b32 [copy], 0;\n" + change + "fill_mode" + where + ".b32 [copy], 0;\n" + extra;
  return text +
         "mbarrier.init.shared.b64 [barrier], 1;\nfence.proxy.async;\nchanged:\nbar.warp.sync -1;\n"
         "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [copy], 128;\n"
         "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;\n"
         "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [barrier], 128;\n"
         "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%rd1, {%r3, "
         "%r4}], [barrier];\n"
         "wait:\nmbarrier.try_wait.parity.shared.b64 %p2, [barrier], 0;\n@!%p2 bra wait;\n"
         "mov.u32 %r6, tile; shl.b32 %r7, %r5, 2; add.u32 %r6, %r6, %r7; ld.shared.u32 %r8, [%r6];\n"
         "cvt.u64.u32 %rd6, %r7; add.u64 %rd6, %rd6, %rd3; st.global.u32 [%rd6], %r8;\nret;\n}\n";
}

struct Outcome {
  CUresult code;
  std::vector<unsigned> box;
};

/// The map that the kernel gets is of another tensor, of all that the kernel then changes.
Outcome load(const std::string &extra, unsigned width, unsigned height, int x, int y) {
  emulated::start();
  unsigned pitch = width + 4;
  std::vector<unsigned> tensor(size_t{pitch} * height);
  std::iota(tensor.begin(), tensor.end(), 1u);
  Array<unsigned> memory(tensor), out(std::vector<unsigned>(32));
  Array<Map> place(std::vector<Map>(1));
  Map map;
  const uint64_t extents[] = {64, 2, 2}, strides[] = {64, 128};
  const uint32_t box[] = {16, 1, 1}, steps[] = {1, 2, 1};
  constexpr uint32_t u8 = 0, swizzle32 = 1;
  std::string wrong = fa::emu::encode_tiled(map.bytes, u8, 3, reinterpret_cast<void *>(out.address), extents, strides,
                                            box, steps, 0, swizzle32, 0, 0);
  EXPECT_EQ(wrong, "");
  CUresult code = launch(emulated::kernel(program(extra), "k"), {1}, {32}, 0, map, place.address, memory.address,
                         out.address, width, height, uint64_t{pitch} * 4, x, y);
  if (code != CUDA_SUCCESS) return {code, {}};
  return {code, out.values()};
}

TEST(TensorMaps, ChangedByAKernel) {
  for (unsigned width : {8u, 12u, 40u})
    for (int x : {-3, 0, 7})
      for (int y : {-1, 0, 4}) {
        constexpr unsigned height = 6;
        Outcome outcome = load("", width, height, x, y);
        ASSERT_EQ(outcome.code, CUDA_SUCCESS);
        for (int lane = 0; lane < 32; lane++) {
          int column = x + lane % static_cast<int>(box_width), row = y + lane / static_cast<int>(box_width);
          bool inside = column >= 0 && column < static_cast<int>(width) && row >= 0 && row < static_cast<int>(height);
          unsigned expected = inside ? static_cast<unsigned>(row) * (width + 4) + static_cast<unsigned>(column) + 1 : 0;
          ASSERT_EQ(outcome.box[static_cast<size_t>(lane)], expected) << width << " " << x << " " << y << " " << lane;
        }
      }
}

/// What CUTLASS and Triton do to maps (exec/tensor_map.h), and its opposite.
TEST(TensorMaps, WithABitThatOthersChange) {
  const Outcome as_it_was = load("", 8, 6, 0, 0);
  for (const char *change : {"and.b64 %rd7, %rd7, -2097153;", "or.b64 %rd7, %rd7, 2097152;"}) {
    Outcome outcome =
        load(std::string("ld.shared.u64 %rd7, [copy+8];\n") + change + "\nst.shared.u64 [copy+8], %rd7;\n", 8, 6, 0, 0);
    ASSERT_EQ(outcome.code, CUDA_SUCCESS);
    EXPECT_EQ(outcome.box, as_it_was.box);
  }
}

/// A map that says what no map may is refused by what uses it; one that is no map by what changes it.
TEST(TensorMaps, ThatCannotBe) {
  auto refuses = [](const std::string &extra) {
    EXPECT_EXIT(std::_Exit(load(extra, 8, 6, 0, 0).code == CUDA_ERROR_ILLEGAL_INSTRUCTION ? 0 : 1),
                testing::ExitedWithCode(0), "")
        << extra;
  };
  refuses("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [copy], 1, 500;\n");
  refuses("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [copy], 0, 100;\n");
  refuses("tensormap.replace.tile.rank.shared::cta.b1024.b32 [copy], 2;\n");
  refuses("st.shared.u64 [copy], %rd1;\ntensormap.replace.tile.rank.shared::cta.b1024.b32 [copy], 1;\n");
}

}  // namespace
