// tcgen05.mma against plain products.
#include <gtest/gtest.h>

#include "tcgen05_program.h"

namespace {

using namespace tcgen05;
using tensor::Format;
using tensor::Layout;
using tensor::Matrix;

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
  // The first CTA multiplies; the commit signals both.
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

}  // namespace
