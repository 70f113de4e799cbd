// tcgen05 against plain products and against an independent account of which thread has which cell of tensor memory.
#include <gtest/gtest.h>

#include "client.h"
#include "tensor_layout.h"

namespace {

using emulated::Array;
using emulated::kernel;
using emulated::launch;
using tensor::Format;
using tensor::Layout;
using tensor::Matrix;

constexpr int threads = 128, columns_kept = 256;

std::string registers(const char *name, int count) {
  std::string text = "{";
  for (int i = 0; i < count; i++) text += (i ? ", %" : "%") + std::string(name) + std::to_string(i);
  return text + "}";
}

/// A kernel of 128 threads: allocates all columns, puts an image into shared memory and cells into columns 0 to 255 of
/// tensor memory (thread by thread, 32x32b), runs the body, and gives the same columns back.
std::string program(const std::string &body, int shared_bytes, bool give_back = true, const char *group = "1") {
  std::string g = std::string("cta_group::") + group, n = std::to_string(shared_bytes);
  std::string text =
      ".version 8.7\n.target sm_100a\n.address_size 64\n.extern .shared .align 1024 .b8 memory[];\n"
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

std::string commit_and_wait(const char *group) {
  return std::string("@%p1 tcgen05.commit.cta_group::") + group +
         ".mbarrier::arrive::one.shared::cluster.b64 [%t4];\nspin:\n"
         "mbarrier.try_wait.parity.shared::cta.b64 %p4, [%t4], 0;\n@!%p4 bra spin;\n"
         "tcgen05.fence::after_thread_sync;\n";
}

struct Outcome {
  CUresult result;
  std::vector<uint32_t> cells, extra;  // 256 columns a lane; 128 values a thread
};

Outcome run(const std::string &text, const std::vector<uint8_t> &image, const std::vector<uint32_t> &cells,
            uint64_t da = 0, uint64_t db = 0, uint32_t idesc = 0, bool accumulate = true, unsigned blocks = 1) {
  std::vector<uint32_t> extra(threads * 128 * blocks);
  emulated::start();
  Array<uint8_t> d_image(image);
  Array<uint32_t> d_cells(cells), d_extra(extra);
  CUfunction k = kernel(text, "k");
  emulated::call("cuFuncSetAttribute", k, 8, static_cast<int>(image.size()));
  unsigned shared = static_cast<unsigned>(image.size()) / blocks;
  CUresult result = launch(k, {blocks}, {threads}, shared, d_image.address, d_cells.address, d_extra.address, da, db,
                           idesc, unsigned{accumulate});
  if (result != CUDA_SUCCESS) return {result, cells, extra};
  return {result, d_cells.values(), d_extra.values()};
}

uint64_t descriptor(uint32_t address, const Layout &layout) {
  uint64_t mode = layout.width == 16 ? 0 : layout.atoms32 ? 1 : layout.width == 128 ? 2 : layout.width == 64 ? 4 : 6;
  return (address & 0x3ffff) >> 4 | uint64_t(layout.leading >> 4) << 16 | uint64_t(layout.stride >> 4) << 32 |
         uint64_t{1} << 46 | mode << 61;
}

struct Case {
  const char *kind = "f16";
  Format a = tensor::f16, b = tensor::f16;
  uint32_t a_code = 0, b_code = 0, d_code = 1;
  int rows = 128, columns = 64;
  Layout a_layout = {128, false, 16, 1024}, b_layout = {128, false, 16, 1024};
  bool accumulate = true, a_in_tensor_memory = false, negated = false;
  int a_column = 200, d_column = 0, scale = 0;
  std::string disabled;
};

float as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
uint32_t as_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

float before(int lane, int column) {
  return static_cast<float>((lane * 5 + column * 3) % 41 - 20);
}

uint32_t instruction_descriptor(const Case &c) {
  return c.d_code << 4 | c.a_code << 7 | c.b_code << 10 | uint32_t{c.negated} << 13 |
         uint32_t{c.a_layout.transposed} << 15 | uint32_t{c.b_layout.transposed} << 16 |
         static_cast<uint32_t>(c.columns / 8) << 17 | static_cast<uint32_t>(c.rows / 16) << 24;
}

void expect_product(const Case &c, const std::string &what) {
  constexpr int bytes = 160 * 1024, b_at = 80 * 1024;
  int depth = 32 / c.a.bytes;
  Matrix a(c.a, c.rows, depth, 3), b(c.b, c.columns, depth, 4);
  std::vector<uint8_t> image(bytes);
  c.a_layout.write(c.a, a, image.data());
  c.b_layout.write(c.b, b, image.data() + b_at);
  // With 64 rows, row 16 w + i is lane 32 w + i.
  auto lane_of = [&](int row) { return c.rows == 64 ? row / 16 * 32 + row % 16 : row; };
  std::vector<uint32_t> cells(threads * columns_kept);
  for (int lane = 0; lane < threads; lane++)
    for (int column = 0; column < columns_kept; column++)
      cells[lane * columns_kept + column] =
          c.d_code == 2 ? static_cast<uint32_t>(static_cast<int>(before(lane, column))) : as_bits(before(lane, column));
  if (c.a_in_tensor_memory)
    for (int row = 0; row < c.rows; row++)
      for (int k = 0; k < depth; k++)
        std::memcpy(reinterpret_cast<uint8_t *>(&cells[lane_of(row) * columns_kept + c.a_column]) + k * c.a.bytes,
                    &a.bits[row * depth + k], c.a.bytes);
  std::string operand = "%r6";
  if (c.a_in_tensor_memory) operand = "[%t7+" + std::to_string(c.a_column) + "]";
  std::string body = "@%p1 tcgen05.mma.cta_group::1.kind::" + std::string(c.kind) + " [%t7+" +
                     std::to_string(c.d_column) + "], " + operand + ", %r7, %t12, " + c.disabled + "%p3" +
                     (c.scale ? ", " + std::to_string(c.scale) : "") + ";\n" + commit_and_wait("1");
  Outcome outcome = run(program(body, bytes), image, cells, descriptor(1024 + 1024, c.a_layout),
                        descriptor(1024 + 1024 + b_at, c.b_layout), instruction_descriptor(c), c.accumulate);
  ASSERT_EQ(outcome.result, CUDA_SUCCESS) << what;
  std::vector<double> expected(threads * columns_kept);
  for (int i = 0; i < threads * columns_kept; i++) {
    bool integers = c.d_code == 2;
    expected[i] = integers ? static_cast<int32_t>(cells[i]) : as_float(cells[i]);
  }
  for (int row = 0; row < c.rows; row++)
    for (int n = 0; n < c.columns; n++) {
      double sum = 0;
      for (int k = 0; k < depth; k++) sum += a.at(row, k) * b.at(n, k);
      double &cell = expected[lane_of(row) * columns_kept + c.d_column + n];
      if (!c.disabled.empty() && lane_of(row) < 32 && lane_of(row) % 2 == 1) continue;
      cell = (c.accumulate ? cell / (1 << c.scale) : 0) + (c.negated ? -sum : sum);
    }
  int wrong = 0;
  for (int i = 0; i < threads * columns_kept && wrong < 5; i++) {
    if (c.a_in_tensor_memory && i % columns_kept >= c.a_column && i % columns_kept < c.a_column + 8) continue;
    double got = c.d_code == 2 ? static_cast<int32_t>(outcome.cells[i]) : as_float(outcome.cells[i]);
    if (got == expected[i]) continue;
    wrong++;
    ADD_FAILURE() << what << ": lane " << i / columns_kept << " column " << i % columns_kept << " is " << got
                  << ", not " << expected[i];
  }
}

TEST(Tcgen05, Shapes) {
  for (int rows : {64, 128})
    for (int columns : {8, 16, 80, 256}) {
      Case c;
      c.rows = rows;
      c.columns = columns;
      if (rows == 128 && columns == 8) continue;
      expect_product(c, std::to_string(rows) + "x" + std::to_string(columns));
    }
}

TEST(Tcgen05, Types) {
  struct Kind {
    const char *kind;
    Format a, b;
    uint32_t a_code, b_code, d_code;
  };
  for (const Kind &k : {Kind{"f16", tensor::bf16, tensor::bf16, 1, 1, 1},
                        {"tf32", tensor::tf32, tensor::tf32, 2, 2, 1},
                        {"f8f6f4", tensor::e4m3, tensor::e5m2, 0, 1, 1},
                        {"f8f6f4", tensor::e5m2, tensor::e4m3, 1, 0, 1},
                        {"i8", tensor::s8, tensor::u8, 1, 0, 2}})
    for (bool in_tensor_memory : {false, true})
      for (bool accumulate : {false, true}) {
        Case c;
        c.kind = k.kind;
        c.a = k.a;
        c.b = k.b;
        c.a_code = k.a_code;
        c.b_code = k.b_code;
        c.d_code = k.d_code;
        c.a_in_tensor_memory = in_tensor_memory;
        c.accumulate = accumulate;
        c.negated = k.d_code != 2 && accumulate;
        c.d_column = 8;
        c.rows = accumulate ? 64 : 128;
        expect_product(c, k.kind);
      }
}

TEST(Tcgen05, SwizzlesAndTransposes) {
  for (int width : {16, 32, 64, 128})
    for (int transposed : {0, 1, 2, 3}) {
      Case c;
      c.columns = 80;
      Layout k_major{width, false, width == 16 ? 4096 : 16, width * 8};
      Layout mn_major{width, true, width == 16 ? 8192 : 2048, width == 16 ? 256 : 2048 * 18};
      c.a_layout = transposed & 1 ? mn_major : k_major;
      c.b_layout = transposed & 2 ? mn_major : k_major;
      expect_product(c, std::to_string(width) + " " + std::to_string(transposed));
    }
  Case c;
  c.kind = "tf32";
  c.a = c.b = tensor::tf32;
  c.a_code = c.b_code = 2;
  c.b_layout = {128, true, 4096, 1024, true};
  expect_product(c, "atoms of 32 bytes");
}

/// Two CTAs: each has half of the rows of A and half of the columns of B, and all columns of D for its rows.
void expect_pair_product(int rows, int columns) {
  constexpr int bytes = 64 * 1024, b_at = 32 * 1024, depth = 16;
  Layout layout{128, false, 16, 1024};
  Matrix a(tensor::f16, rows, depth, 5), b(tensor::f16, columns, depth, 6);
  std::vector<uint8_t> image(2 * bytes);
  auto put = [&](const Matrix &matrix, int row, int at) {
    for (int k = 0; k < depth; k++)
      std::memcpy(image.data() + at + layout.byte(tensor::f16, row % (matrix.rows / 2), k),
                  &matrix.bits[row * depth + k], 2);
  };
  for (int row = 0; row < rows; row++) put(a, row, row / (rows / 2) * bytes);
  for (int n = 0; n < columns; n++) put(b, n, n / (columns / 2) * bytes + b_at);
  std::vector<uint32_t> cells(2 * threads * columns_kept);
  for (size_t i = 0; i < cells.size(); i++)
    cells[i] = as_bits(before(static_cast<int>(i / 256), static_cast<int>(i % 256)));
  std::vector<uint32_t> expected = cells;
  for (int row = 0; row < rows; row++)
    for (int n = 0; n < columns; n++) {
      double sum = 0;
      for (int k = 0; k < depth; k++) sum += a.at(row, k) * b.at(n, k);
      int block = row / (rows / 2), lane = row % (rows / 2), column = n;
      if (rows == 128 && n >= columns / 2) lane += 64, column -= columns / 2;
      uint32_t &cell = expected[(block * threads + lane) * columns_kept + column];
      cell = as_bits(as_float(cell) + static_cast<float>(sum));
    }
  uint32_t idesc = 1u << 4 | static_cast<uint32_t>(columns / 8) << 17 | static_cast<uint32_t>(rows / 16) << 24;
  // The first CTA multiplies; the commit tells both.
  std::string body =
      "setp.eq.u32 %p5, %t9, 0;\nand.pred %p5, %p5, %p1;\nmov.b16 %h0, 3;\n"
      "@%p5 tcgen05.mma.cta_group::2.kind::f16 [%t7], %r6, %r7, %t12, %p3;\n"
      "@%p5 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
      "[%t4], %h0;\nspin:\nmbarrier.try_wait.parity.shared::cta.b64 %p4, [%t4], 0;\n@!%p4 bra spin;\n";
  Outcome outcome = run(program(body, bytes, true, "2"), image, cells, descriptor(2048, layout),
                        descriptor(2048 + b_at, layout), idesc, true, 2);
  ASSERT_EQ(outcome.result, CUDA_SUCCESS);
  int wrong = 0;
  for (size_t i = 0; i < cells.size(); i++) wrong += outcome.cells[i] != expected[i];
  EXPECT_EQ(wrong, 0) << rows << "x" << columns;
}

TEST(Tcgen05, PairsOfBlocks) {
  expect_pair_product(256, 64);
  expect_pair_product(256, 256);
  expect_pair_product(128, 96);
}

TEST(Tcgen05, LanesSwitchedOffAndScale) {
  Case c;
  c.scale = 3;
  c.disabled = "{%t14, %t15, %t15, %t15}, ";  // the odd ones of the first 32 lanes
  expect_product(c, "disabled");
}

/// A shape of loads and stores: cells are numbered row by row, and dealt out to threads as the tables of the ISA do.
struct MoveShape {
  const char *name;
  int rows, registers, columns;  // of .x1
};

/// The cell (row, column of .x1) whose value register r of a thread has.
void cell_of(const std::string &name, int thread, int r, int &row, int &column) {
  int group = thread / 4, in_group = thread % 4;
  if (name == "32x32b") {
    row = thread;
    column = 0;
  } else if (name == "16x64b") {
    // Threads 0 and 2 of a group have the two columns of row `group`; 1 and 3 those of eight rows below.
    row = in_group == 0 || in_group == 2 ? group : group + 8;
    column = in_group < 2 ? 0 : 1;
  } else if (name == "16x128b") {
    row = r == 0 ? group : group + 8;
    column = in_group;
  } else {
    row = r < 2 ? group : group + 8;
    column = 2 * in_group + r % 2;
  }
}

TEST(Tcgen05, LoadsAndStores) {
  for (const MoveShape &shape :
       {MoveShape{"32x32b", 32, 1, 1}, {"16x64b", 16, 1, 2}, {"16x128b", 16, 2, 4}, {"16x256b", 16, 4, 8}})
    for (int times : {1, 4, 16})
      for (bool packed : {false, true})
        for (int upper : {0, 16}) {
          if (upper && shape.rows == 32) continue;
          int count = shape.registers * times;
          if (shape.columns * times * (packed ? 2 : 1) > 120) continue;
          std::string end = std::string(shape.name) + ".x" + std::to_string(times);
          std::string at = "[%t10+" + std::to_string((upper << 16) + 3) + "]",
                      to = "[%t10+" + std::to_string((upper << 16) + 130) + "]";
          std::string body = "tcgen05.ld.sync.aligned." + end + (packed ? ".pack::16b" : "") + ".b32 " +
                             registers("d", count) + ", " + at + ";\ntcgen05.wait::ld.sync.aligned;\n";
          for (int i = 0; i < count; i++)
            body += "st.global.u32 [%r4+" + std::to_string(4 * i) + "], %d" + std::to_string(i) + ";\n";
          body += "tcgen05.st.sync.aligned." + end + (packed ? ".unpack::16b" : "") + ".b32 " + to + ", " +
                  registers("d", count) + ";\ntcgen05.wait::st.sync.aligned;\n";
          std::vector<uint32_t> cells(threads * columns_kept);
          for (size_t i = 0; i < cells.size(); i++) cells[i] = static_cast<uint32_t>(i * 2654435761u);
          Outcome outcome = run(program(body, 2048), std::vector<uint8_t>(2048), cells);
          ASSERT_EQ(outcome.result, CUDA_SUCCESS) << end;
          std::vector<uint32_t> expected = cells;
          for (int t = 0; t < threads; t++)
            for (int i = 0; i < count; i++) {
              int row = 0, column = 0;
              cell_of(shape.name, t % 32, i % shape.registers, row, column);
              column += i / shape.registers * shape.columns;
              size_t line = static_cast<size_t>(t / 32 * 32 + upper + row) * columns_kept;
              uint32_t value = packed ? (cells[line + 3 + 2 * column] & 0xffff) | cells[line + 4 + 2 * column] << 16
                                      : cells[line + 3 + column];
              ASSERT_EQ(outcome.extra[t * 128 + i], value) << end << " thread " << t << " register " << i;
              if (packed) {
                expected[line + 130 + 2 * column] = value & 0xffff;
                expected[line + 131 + 2 * column] = value >> 16;
              } else {
                expected[line + 130 + column] = value;
              }
            }
          ASSERT_EQ(outcome.cells, expected) << end << (packed ? " packed" : "");
        }
}

TEST(Tcgen05, TwoHalvesOfColumns) {
  std::string body =
      "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {%d0, %d1}, [%t10+5], 40;\ntcgen05.wait::ld.sync.aligned;\n"
      "st.global.v2.u32 [%r4], {%d0, %d1};\n";
  std::vector<uint32_t> cells(threads * columns_kept);
  for (size_t i = 0; i < cells.size(); i++) cells[i] = static_cast<uint32_t>(i);
  Outcome outcome = run(program(body, 2048), std::vector<uint8_t>(2048), cells);
  ASSERT_EQ(outcome.result, CUDA_SUCCESS);
  for (int t = 0; t < threads; t++)
    for (int i = 0; i < 2; i++)
      ASSERT_EQ(outcome.extra[t * 128 + i],
                static_cast<uint32_t>((t / 32 * 32 + t % 16) * columns_kept + 5 + i + (t % 32 < 16 ? 0 : 40)));
}

TEST(Tcgen05, Copies) {
  struct Copy {
    const char *name;
    int rows, words;
    std::vector<std::vector<int>> lanes;  // of each 32 rows
  };
  for (const Copy &copy : {Copy{"128x256b", 128, 8, {{0}, {32}, {64}, {96}}},
                           {"128x128b", 128, 4, {{0}, {32}, {64}, {96}}},
                           {"64x128b.warpx2::02_13", 64, 4, {{0, 64}, {32, 96}}},
                           {"64x128b.warpx2::01_23", 64, 4, {{0, 32}, {64, 96}}},
                           {"32x128b.warpx4", 32, 4, {{0, 32, 64, 96}}}}) {
    constexpr int bytes = 32 * 1024;
    Matrix from(tensor::tf32, copy.rows, copy.words, 9);
    Layout layout{16, false, 8192, 128};
    std::vector<uint8_t> image(bytes);
    layout.write(tensor::tf32, from, image.data());
    std::vector<uint32_t> cells(threads * columns_kept, 77), expected = cells;
    for (int row = 0; row < copy.rows; row++)
      for (int first : copy.lanes[row / 32])
        for (int word = 0; word < copy.words; word++)
          expected[(first + row % 32) * columns_kept + 20 + word] = from.bits[row * copy.words + word];
    std::string body =
        std::string("@%p1 tcgen05.cp.cta_group::1.") + copy.name + " [%t7+20], %r6;\n" + commit_and_wait("1");
    Outcome outcome = run(program(body, bytes), image, cells, descriptor(2048, layout));
    ASSERT_EQ(outcome.result, CUDA_SUCCESS) << copy.name;
    ASSERT_EQ(outcome.cells, expected) << copy.name;
  }
}

bool no_seed() {
  const char *seed = std::getenv("FA_EMU_SEED");
  return !seed || std::string(seed) == "0";
}

TEST(Tcgen05, NothingLandsWithoutItsWait) {
  if (!no_seed()) GTEST_SKIP() << "under a seed loads and stores may land early";
  std::vector<uint32_t> cells(threads * columns_kept, 5);
  std::string body =
      "mov.u32 %d0, 9;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%d0}, [%t10];\nst.global.u32 [%r4], %d0;\n"
      "tcgen05.st.sync.aligned.32x32b.x1.b32 [%t10+1], {%t0};\n";
  Outcome outcome = run(program(body, 2048), std::vector<uint8_t>(2048), cells);
  ASSERT_EQ(outcome.result, CUDA_SUCCESS);
  EXPECT_EQ(outcome.extra[0], 9u);
  EXPECT_EQ(outcome.cells[1], 5u);
}

int code_of(const std::string &body, uint32_t idesc = 0, uint64_t da = 0) {
  std::vector<uint8_t> image(32 * 1024);
  Layout layout{128, false, 16, 1024};
  return run(program(body, 32 * 1024), image, std::vector<uint32_t>(threads * columns_kept),
             descriptor(2048, layout) | da, descriptor(2048, layout), idesc)
      .result;
}

void expect_code(CUresult code, const std::string &body, uint32_t idesc = 0, uint64_t da = 0) {
  EXPECT_EXIT(std::_Exit(code_of(body, idesc, da) == code ? 0 : 1), testing::ExitedWithCode(0), "") << body;
}

TEST(Tcgen05Faults, WhatCannotBe) {
  std::string mma = "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%t7], %r6, %r7, %t12, %p3;\n" + commit_and_wait("1");
  uint32_t good = 1u << 4 | 8u << 17 | 8u << 24;
  expect_code(CUDA_SUCCESS, mma, good);
  expect_code(CUDA_ERROR_ILLEGAL_INSTRUCTION, mma, good | 7u << 7);            // no such type of A
  expect_code(CUDA_ERROR_ILLEGAL_INSTRUCTION, mma, good | 1u << 17);           // N = 72 with M = 128
  expect_code(CUDA_ERROR_ILLEGAL_INSTRUCTION, mma, good, uint64_t{1} << 47);   // the descriptor's constant
  expect_code(CUDA_ERROR_ILLEGAL_ADDRESS, mma, good, uint64_t{0x2000} << 32);  // beyond the block's memory
  // Another warp's lanes; columns that nobody has; a second allocation after the permit is gone; columns not allocated.
  expect_code(CUDA_ERROR_ILLEGAL_ADDRESS,
              "xor.b32 %t10, %t10, 0x200000;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%d0}, [%t10];\n");
  expect_code(CUDA_ERROR_ILLEGAL_ADDRESS, "tcgen05.ld.sync.aligned.32x32b.x4.b32 {%d0,%d1,%d2,%d3}, [%t10+510];\n");
  expect_code(CUDA_ERROR_ILLEGAL_INSTRUCTION, "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%t4], 32;\n");
  expect_code(CUDA_ERROR_ILLEGAL_INSTRUCTION, "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %t7, 64;\n");
  expect_code(CUDA_ERROR_ILLEGAL_INSTRUCTION, "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;\n");
}

}  // namespace
