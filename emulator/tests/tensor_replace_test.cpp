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

/// The kernel's changes of the map, one a field.
std::vector<std::string> changes() {
  std::vector<std::string> result;
  auto change = [&](const std::string &field, const std::string &value, const char *type = "b32") {
    result.push_back("tensormap.replace.tile." + field + ".shared::cta.b1024." + type + " [copy], " + value + ";\n");
  };
  change("global_address", "%rd2", "b64");
  change("rank", "1");
  change("global_dim", "0, %r1");
  change("global_dim", "1, %r2");
  change("global_stride", "0, %rd4", "b64");
  change("box_dim", "0, 8");
  change("box_dim", "1, 4");
  change("element_stride", "0, 1");
  change("element_stride", "1, 1");
  change("elemtype", "2");
  change("interleave_layout", "0");
  change("swizzle_mode", "0");
  change("fill_mode", "0");
  return result;
}

std::string all_changes() {
  std::string text;
  for (const std::string &change : changes()) text += change;
  return text;
}

std::string device() {
  const char *name = std::getenv("FA_EMU_DEVICE");
  return name ? name : "sm_90a";
}

/// change: of the map in shared memory, which is a copy of the kernel's parameter, or zeros. line: of 128 bytes of the
/// tile, which the kernel hands over.
std::string program(const std::string &change, bool from_zeros, unsigned line) {
  std::string text =
      ".version 8.6\n.target " + device() +
      "\n.address_size 64\n"
      ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 place, .param .u64 tensor, .param .u64 out,"
      " .param .u32 width, .param .u32 height, .param .u64 pitch, .param .u32 x, .param .u32 y) {\n"
      ".reg .b32 %r<12>; .reg .b64 %rd<12>; .reg .pred %p<4>;\n"
      ".shared .align 128 .b8 copy[128]; .shared .align 1024 .b8 tile[512]; .shared .align 8 .b64 barrier;\n"
      "ld.param.u64 %rd1, [place]; ld.param.u64 %rd2, [tensor]; ld.param.u64 %rd3, [out]; ld.param.u64 %rd4, [pitch];\n"
      "ld.param.u32 %r1, [width]; ld.param.u32 %r2, [height]; ld.param.u32 %r3, [x]; ld.param.u32 %r4, [y];\n"
      "mov.u32 %r5, %tid.x; setp.eq.u32 %p1, %r5, 0;\n@!%p1 bra changed;\nmov.u64 %rd5, 0;\n";
  for (int at = 0; at < 128; at += 8) {
    std::string offset = std::to_string(at);
    if (!from_zeros) text += "ld.param.u64 %rd5, [map+" + offset + "];\n";
    text += "st.shared.u64 [copy+" + offset + "], %rd5;\n";
  }
  return text + change +
         "mbarrier.init.shared.b64 [barrier], 1;\nfence.proxy.async;\nchanged:\nbar.warp.sync -1;\n"
         "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [copy], 128;\n"
         "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;\n"
         "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [barrier], 128;\n"
         "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%rd1, {%r3, "
         "%r4}], [barrier];\n"
         "wait:\nmbarrier.try_wait.parity.shared.b64 %p2, [barrier], 0;\n@!%p2 bra wait;\n"
         "mov.u32 %r6, tile+" +
         std::to_string(line * 128) +
         "; shl.b32 %r7, %r5, 2; add.u32 %r6, %r6, %r7; ld.shared.u32 %r8, [%r6];\n"
         "cvt.u64.u32 %rd6, %r7; add.u64 %rd6, %rd6, %rd3; st.global.u32 [%rd6], %r8;\nret;\n}\n";
}

struct Outcome {
  CUresult code;
  std::vector<unsigned> box;
};

/// The map that the kernel gets is of another tensor, of all that the kernel then changes.
Outcome load(const std::string &change, bool from_zeros, unsigned width, unsigned height, int x, int y,
             unsigned line = 0) {
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
  CUresult code = launch(emulated::kernel(program(change, from_zeros, line), "k"), {1}, {32}, 0, map, place.address,
                         memory.address, out.address, width, height, uint64_t{pitch} * 4, x, y);
  if (code != CUDA_SUCCESS) return {code, {}};
  return {code, out.values()};
}

void expect_boxes(const std::string &change, bool from_zeros) {
  for (unsigned width : {8u, 12u, 40u})
    for (int x : {-3, 0, 7})
      for (int y : {-1, 0, 4}) {
        constexpr unsigned height = 6;
        Outcome outcome = load(change, from_zeros, width, height, x, y);
        ASSERT_EQ(outcome.code, CUDA_SUCCESS);
        for (int lane = 0; lane < 32; lane++) {
          int column = x + lane % static_cast<int>(box_width), row = y + lane / static_cast<int>(box_width);
          bool inside = column >= 0 && column < static_cast<int>(width) && row >= 0 && row < static_cast<int>(height);
          unsigned expected = inside ? static_cast<unsigned>(row) * (width + 4) + static_cast<unsigned>(column) + 1 : 0;
          ASSERT_EQ(outcome.box[static_cast<size_t>(lane)], expected) << width << " " << x << " " << y << " " << lane;
        }
      }
}

/// The changes of maps by CUTLASS and Triton (exec/tensor_map.h), and the opposite.
TEST(TensorMaps, WithABitThatOthersChange) {
  const Outcome as_it_was = load(all_changes(), false, 8, 6, 0, 0);
  for (const char *change : {"and.b64 %rd7, %rd7, -2097153;", "or.b64 %rd7, %rd7, 2097152;"}) {
    Outcome outcome =
        load(all_changes() + "ld.shared.u64 %rd7, [copy+8];\n" + change + "\nst.shared.u64 [copy+8], %rd7;\n", false, 8,
             6, 0, 0);
    ASSERT_EQ(outcome.code, CUDA_SUCCESS);
    EXPECT_EQ(outcome.box, as_it_was.box);
  }
}

TEST(TensorMaps, ChangedByAKernel) {
  expect_boxes(all_changes(), false);
}

/// The driver has made no map: zeros, of which every field is set.
TEST(TensorMaps, MadeByAKernel) {
  expect_boxes(all_changes(), true);
}

/// The driver's swizzles of 128 bytes are .swizzle_mode 3 with an atomicity, whichever is set first. A row of the box
/// has a separate line then, and the second row's parts are exchanged.
TEST(TensorMaps, SwizzledInAtoms) {
  if (device() == "sm_90a") GTEST_SKIP() << "of sm_100 and later";
  const std::string field = "tensormap.replace.tile.swizzle_", mode = field + "mode.shared::cta.b1024.b32 [copy], 3;\n";
  constexpr unsigned moved_by[] = {16, 32, 32 ^ 8, 64};  // bytes, exclusive-or
  const Outcome plain = load(all_changes(), false, 8, 6, 0, 0);
  for (unsigned atomicity = 0; atomicity < 4; atomicity++) {
    const std::string atom = field + "atomicity.shared::cta.b1024.b32 [copy], " + std::to_string(atomicity) + ";\n";
    for (const std::string &change : {all_changes() + mode + atom, all_changes() + atom + mode})
      for (bool from_zeros : {false, true}) {
        Outcome outcome = load(change, from_zeros, 8, 6, 0, 0, 1);
        ASSERT_EQ(outcome.code, CUDA_SUCCESS);
        for (unsigned i = 0; i < box_width; i++)
          ASSERT_EQ(outcome.box[(i * 4 ^ moved_by[atomicity]) / 4], plain.box[box_width + i]) << atomicity << " " << i;
      }
  }
}

/// said: a regular expression for the error.
void expect_refused(const std::string &change, bool from_zeros, const std::string &said) {
  EXPECT_EXIT(std::_Exit(load(change, from_zeros, 8, 6, 0, 0).code == CUDA_ERROR_ILLEGAL_INSTRUCTION ? 0 : 1),
              testing::ExitedWithCode(0), said)
      << change;
}

/// A map with fields that no map may have is refused by its use; one that is no map by the instruction that changes it.
TEST(TensorMaps, ThatCannotBe) {
  auto refuses = [](const std::string &change, const char *said) {
    expect_refused(all_changes() + change, false, said);
  };
  refuses("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [copy], 1, 500;\n", "boxDim.1. is 500");
  refuses("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [copy], 1, 65540;\n", "box_dim 65540: at most 65536");
  refuses("tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [copy], 0, 257;\n",
          "element_stride 257: at most 255");
  refuses("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [copy], 0, 100;\n", "globalStrides.0. is 100");
  refuses("tensormap.replace.tile.rank.shared::cta.b1024.b32 [copy], 2;\n", "the tensor map has 3 dimensions");
  if (device() != "sm_90a")
    refuses(
        "tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [copy], 2;\n"
        "tensormap.replace.tile.swizzle_atomicity.shared::cta.b1024.b32 [copy], 1;\n",
        "swizzle_atomicity is 1 and must be 0, 16 bytes, for a swizzle of 64 bytes");
  refuses("st.shared.u64 [copy], %rd1;\ntensormap.replace.tile.rank.shared::cta.b1024.b32 [copy], 1;\n",
          "no tensor map at this address, and no 128 bytes of zeros");
}

/// A map of zeros may lack a replacement only of fields in which 0 has a meaning, as Triton's lacks .interleave_layout
/// and .fill_mode. Another one is named where the map is used.
TEST(TensorMaps, ThatLackAField) {
  const char *names[] = {".global_address",
                         "",
                         ".global_dim of dimension 0",
                         ".global_dim of dimension 1",
                         ".global_stride 0",
                         ".box_dim of dimension 0",
                         ".box_dim of dimension 1",
                         ".element_stride of dimension 0",
                         ".element_stride of dimension 1",
                         "",
                         "",
                         "",
                         ""};
  ASSERT_EQ(std::size(names), changes().size());
  std::string only_those;
  for (size_t i = 0; i < std::size(names); i++)
    if (*names[i] || changes()[i].find(".rank") != std::string::npos ||
        changes()[i].find(".elemtype") != std::string::npos)
      only_those += changes()[i];
  expect_boxes(only_those, true);
  for (size_t left_out = 0; left_out < std::size(names); left_out++) {
    if (!*names[left_out]) continue;
    std::string change;
    for (size_t i = 0; i < std::size(names); i++)
      if (i != left_out) change += changes()[i];
    expect_refused(change, true, std::string("nothing has set its ") + names[left_out] + ".*cp.async.bulk.tensor.2d");
  }
  expect_refused("", true, "there is no tensor map at this address");  // nothing was set of it
}

}  // namespace
