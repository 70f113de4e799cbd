// wgmma against plain products: every accumulator of every thread, for shapes, types, swizzles and transposes.
#include <gtest/gtest.h>

#include <map>

#include "client.h"
#include "short_sum_reference.h"
#include "tensor_layout.h"

namespace {

using emulated::Array;
using emulated::kernel;
using emulated::launch;
using tensor::Format;
using tensor::Layout;
using tensor::Matrix;

constexpr int shared_bytes = 160 * 1024, b_at = 80 * 1024, threads = 128;

enum class Accumulator { f32, f16, s32 };

struct Case {
  Format a = tensor::f16, b = tensor::f16;
  Accumulator accumulator = Accumulator::f32;
  int columns = 64;
  bool a_in_registers = false;
  Layout a_layout = {128, false, 16, 1024}, b_layout = {128, false, 16, 1024};
  int a_strip = 0, b_strip = 0;  // which 32 bytes along K of the matrices in memory are multiplied
  int scale_a = 1, scale_b = 1;
  bool accumulate = true;
  bool any = false;  // value of 8-bit formats, of which bits get lost
  std::string end = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";

  int depth() const { return 32 / a.bytes; }
  int registers() const { return columns / (accumulator == Accumulator::f16 ? 4 : 2); }
};

uint64_t descriptor(uint32_t address, const Layout &layout) {
  uint64_t mode = layout.width == 16 ? 0 : layout.width == 128 ? 1 : layout.width == 64 ? 2 : 3;
  return (address & 0x3ffff) >> 4 | uint64_t(layout.leading >> 4) << 16 | uint64_t(layout.stride >> 4) << 32 |
         mode << 62;
}

std::string registers(const char *name, int count) {
  std::string text = "{";
  for (int i = 0; i < count; i++) text += (i ? ", %" : "%") + std::string(name) + std::to_string(i);
  return text + "}";
}

/// Copies an image to shared memory, loads accumulators (and the fragment of A), multiplies, and stores.
std::string program(const Case &c) {
  const char *types[] = {"f32", "f16", "s32"};
  std::string text =
      ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 memory[];\n"
      ".visible .entry k(.param .u64 image, .param .u64 fragments, .param .u64 sums, .param .u64 da, .param .u64 db,"
      " .param .u32 accumulate) {\n.reg .b32 %d<128>;\n.reg .b32 %a<4>;\n.reg .b32 %t<9>;\n.reg .b64 %r<9>;\n"
      ".reg .pred %p<3>;\n"
      "mov.u32 %t0, %tid.x;\nld.param.u64 %r0, [image];\nmov.u32 %t1, memory;\nmul.lo.u32 %t2, %t0, 16;\n"
      "loop:\ncvt.u64.u32 %r1, %t2;\nadd.u64 %r1, %r1, %r0;\nadd.u32 %t3, %t1, %t2;\n"
      "ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%r1];\nst.shared.v4.u32 [%t3], {%a0, %a1, %a2, %a3};\n"
      "add.u32 %t2, %t2, 2048;\nsetp.lt.u32 %p0, %t2, " +
      std::to_string(shared_bytes) + ";\n@%p0 bra loop;\nfence.proxy.async;\nbar.sync 0;\n";
  text +=
      "ld.param.u64 %r2, [fragments];\nmul.wide.u32 %r3, %t0, 16;\nadd.u64 %r2, %r2, %r3;\n"
      "ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%r2];\nld.param.u64 %r4, [sums];\nmul.wide.u32 %r5, %t0, 512;\n"
      "add.u64 %r4, %r4, %r5;\nld.param.u64 %r6, [da];\nld.param.u64 %r7, [db];\nld.param.u32 %t4, [accumulate];\n"
      "setp.ne.u32 %p1, %t4, 0;\n";
  for (int i = 0; i < c.registers(); i++)
    text += "ld.global.u32 %d" + std::to_string(i) + ", [%r4+" + std::to_string(4 * i) + "];\n";
  text += "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n" + std::to_string(c.columns) + "k" +
          std::to_string(c.depth()) + "." + types[static_cast<int>(c.accumulator)] + "." + c.a.name + "." + c.b.name +
          " " + registers("d", c.registers()) + ", " + (c.a_in_registers ? registers("a", 4) : "%r6") + ", %r7, %p1";
  if (!c.a.integer) text += ", " + std::to_string(c.scale_a) + ", " + std::to_string(c.scale_b);
  if (c.a.bytes == 2 && !c.a_in_registers) text += c.a_layout.transposed ? ", 1" : ", 0";
  if (c.a.bytes == 2) text += c.b_layout.transposed ? ", 1" : ", 0";
  text += ";\n" + c.end;
  for (int i = 0; i < c.registers(); i++)
    text += "st.global.u32 [%r4+" + std::to_string(4 * i) + "], %d" + std::to_string(i) + ";\n";
  return text + "ret;\n}\n";
}

struct Outcome {
  CUresult result;
  std::vector<uint32_t> before, after;  // 128 a thread
};

struct Inputs {
  Matrix a, b;
  explicit Inputs(const Case &c)
      : a(c.a, 64, c.depth() * (c.a_strip + 1), 1, c.any), b(c.b, c.columns, c.depth() * (c.b_strip + 1), 2, c.any) {}
};

/// Register r of thread t holds these elements: row, and the first of its columns.
int row_of(const Case &c, int t, int r) {
  int half = c.accumulator == Accumulator::f16 ? r % 2 : r / 2 % 2;
  return t / 32 * 16 + t % 32 / 4 + 8 * half;
}
int column_of(const Case &c, int t, int r) {
  return c.accumulator == Accumulator::f16 ? r / 2 * 8 + t % 4 * 2 : r / 4 * 8 + t % 4 * 2 + r % 2;
}

uint32_t encode(const Case &c, double low, double high) {
  static const std::map<double, uint32_t> halves = [] {
    std::map<double, uint32_t> all;
    for (uint32_t b = 0; b < 0x10000; b++)
      if ((b & 0x7c00) != 0x7c00) all.emplace(tensor::f16.value(b), b);
    return all;
  }();
  if (c.accumulator == Accumulator::s32) return static_cast<uint32_t>(static_cast<int32_t>(low));
  if (c.accumulator == Accumulator::f16) return halves.at(low) | halves.at(high) << 16;
  float value = static_cast<float>(low);
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

double decode(const Case &c, uint32_t bits, int part) {
  if (c.accumulator == Accumulator::s32) return static_cast<int32_t>(bits);
  if (c.accumulator == Accumulator::f16) return tensor::f16.value(part ? bits >> 16 : bits & 0xffff);
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

double sum_before(int row, int column) {
  return (row * 7 + column * 3) % 33 - 16;
}

Outcome run(const Case &c, uint64_t break_a = 0) {
  emulated::start();
  Inputs in(c);
  std::vector<uint8_t> image(shared_bytes);
  c.a_layout.write(c.a, in.a, image.data());
  c.b_layout.write(c.b, in.b, image.data() + b_at);
  std::vector<uint32_t> fragments(threads * 4), sums(threads * 128);
  // The fragment of A: four bytes a register, columns by bytes.
  for (int t = 0; t < threads; t++)
    for (int r = 0; r < 4; r++)
      for (int byte = 0; byte < 4; byte += c.a.bytes) {
        int row = t / 32 * 16 + t % 32 / 4 + 8 * (r % 2), column = (r / 2 * 16 + t % 4 * 4 + byte) / c.a.bytes;
        int k = column + c.depth() * c.a_strip;
        fragments[t * 4 + r] |= in.a.bits[row * in.a.depth + k] << 8 * byte;
      }
  for (int t = 0; t < threads; t++)
    for (int r = 0; r < c.registers(); r++) {
      int row = row_of(c, t, r), column = column_of(c, t, r);
      sums[t * 128 + r] = encode(c, sum_before(row, column), sum_before(row, column + 1));
    }
  Array<uint8_t> d_image(image);
  Array<uint32_t> d_fragments(fragments), d_sums(sums);
  // Strips along K: 32 bytes each in K-major operands; groups of 8 k in MN-major ones.
  auto advance = [&](const Layout &layout, int strip) {
    int groups = c.depth() / (layout.atoms32 ? 4 : 8) * strip;
    if (layout.transposed) return groups * (layout.width == 16 ? layout.leading : layout.stride);
    return layout.width == 16 ? strip * 2 * layout.leading : strip * 32;
  };
  uint64_t da = descriptor(static_cast<uint32_t>(1024 + advance(c.a_layout, c.a_strip)), c.a_layout) | break_a;
  uint64_t db = descriptor(static_cast<uint32_t>(1024 + b_at + advance(c.b_layout, c.b_strip)), c.b_layout);
  CUfunction k = kernel(program(c), "k");
  emulated::call("cuFuncSetAttribute", k, 8, shared_bytes);
  CUresult result = launch(k, {1}, {threads}, shared_bytes, d_image.address, d_fragments.address, d_sums.address, da,
                           db, unsigned{c.accumulate});
  return {result, sums, result == CUDA_SUCCESS ? d_sums.values() : sums};
}

void expect_product(const Case &c, const char *what) {
  Outcome outcome = run(c);
  ASSERT_EQ(outcome.result, CUDA_SUCCESS) << what;
  Inputs in(c);
  int wrong = 0;
  for (int t = 0; t < threads; t++)
    for (int r = 0; r < c.registers(); r++)
      for (int part = 0; part < (c.accumulator == Accumulator::f16 ? 2 : 1); part++) {
        int row = row_of(c, t, r), column = column_of(c, t, r) + part;
        double sum = 0;
        for (int k = 0; k < c.depth(); k++)
          sum += in.a.at(row, c.depth() * c.a_strip + k) * in.b.at(column, c.depth() * c.b_strip + k);
        sum *= c.a.integer ? 1 : c.scale_a * c.scale_b;
        if (c.accumulate) sum += sum_before(row, column);
        double got = decode(c, outcome.after[t * 128 + r], part);
        // f16 accumulators are rounded once.
        double slack = c.accumulator == Accumulator::f16 ? std::abs(sum) * 0x1p-11 : 0;
        if (!(std::abs(got - sum) <= slack) && wrong++ < 5)
          ADD_FAILURE() << what << ": row " << row << " column " << column << " is " << got << ", not " << sum;
      }
  ASSERT_EQ(wrong, 0) << what;
}

TEST(Wgmma, Shapes) {
  for (int columns : {8, 16, 24, 64, 104, 128, 192, 256}) {
    Case c;
    c.columns = columns;
    expect_product(c, std::to_string(columns).c_str());
    c.accumulate = false;
    c.a_in_registers = true;
    expect_product(c, std::to_string(columns).c_str());
  }
}

TEST(Wgmma, Types) {
  struct Pair {
    Format a, b;
  };
  for (Pair pair : {Pair{tensor::bf16, tensor::bf16},
                    {tensor::tf32, tensor::tf32},
                    {tensor::e4m3, tensor::e4m3},
                    {tensor::e4m3, tensor::e5m2},
                    {tensor::e5m2, tensor::e4m3}})
    for (bool a_in_registers : {false, true}) {
      Case c;
      c.a = pair.a;
      c.b = pair.b;
      c.a_in_registers = a_in_registers;
      c.scale_b = -1;
      expect_product(c, pair.a.name);
    }
}

TEST(Wgmma, HalfAccumulators) {
  for (Format format : {tensor::f16, tensor::e4m3, tensor::e5m2})
    for (bool accumulate : {false, true}) {
      Case c;
      c.a = c.b = format;
      c.accumulator = Accumulator::f16;
      c.accumulate = accumulate;
      c.columns = 96;
      expect_product(c, format.name);
    }
}

/// As SM 90 forms them; in f32 where FA_EMU_FP8_SUMS=exact asks for it.
TEST(Wgmma, ShortSumsOfEightBitProducts) {
  const char *asked = std::getenv("FA_EMU_FP8_SUMS");
  const bool is_short = !(asked && std::string(asked) == "exact");
  for (const Format &format : {tensor::e4m3, tensor::e5m2})
    for (const bool half : {false, true})
      for (const bool accumulate : {false, true}) {
        Case c;
        c.a = c.b = format;
        c.any = true;
        c.accumulate = accumulate;
        c.accumulator = half ? Accumulator::f16 : Accumulator::f32;
        const Outcome outcome = run(c);
        ASSERT_EQ(outcome.result, CUDA_SUCCESS);
        const Inputs in(c);
        const int least = 2 - (1 << (format.exponent - 1));
        int lost = 0;
        for (int t = 0; t < threads; t++)
          for (int r = 0; r < c.registers(); r++)
            for (int part = 0; part < (half ? 2 : 1); part++) {
              const int row = row_of(c, t, r), column = column_of(c, t, r) + part;
              const double before = accumulate ? sum_before(row, column) : 0;
              std::vector<emulated::Term> terms{{before, emulated::exponent_of(before, -126)}};
              double exact = before, size = std::abs(before);
              for (int k = 0; k < c.depth(); k++) {
                const double x = in.a.at(row, k), y = in.b.at(column, k);
                terms.push_back({x * y, emulated::exponent_of(x, least) + emulated::exponent_of(y, least)});
                exact += x * y;
                size += std::abs(x * y);
              }
              const double sum = emulated::short_sum(terms, !half), got = decode(c, outcome.after[t * 128 + r], part);
              if (std::abs(sum) > 65000 && half) continue;  // infinite there
              lost += std::abs(got - exact) > size * 0x1p-20;
              if (is_short) {
                ASSERT_NEAR(got, sum, half ? std::abs(sum) * 0x1p-11 + 0x1p-25 : 0) << row << " " << column;
              } else if (!half) {
                ASSERT_NEAR(got, exact, size * 0x1p-20);
              }
            }
        if (!half) {
          EXPECT_EQ(lost > 100, is_short) << lost;
        }
      }
}

TEST(Wgmma, Integers) {
  struct Pair {
    Format a, b;
  };
  for (Pair pair :
       {Pair{tensor::s8, tensor::s8}, {tensor::u8, tensor::s8}, {tensor::s8, tensor::u8}, {tensor::u8, tensor::u8}})
    for (bool a_in_registers : {false, true}) {
      Case c;
      c.a = pair.a;
      c.b = pair.b;
      c.accumulator = Accumulator::s32;
      c.a_in_registers = a_in_registers;
      expect_product(c, pair.a.name);
    }
}

TEST(Wgmma, KMajorSwizzles) {
  for (Format format : {tensor::f16, tensor::tf32, tensor::e4m3})
    for (int width : {16, 32, 64, 128}) {
      Case c;
      c.a = c.b = format;
      c.columns = 40;
      c.a_layout = {width, false, width == 16 ? 2048 : 16, width * 8};
      c.b_layout = {width, false, width == 16 ? 4096 : 16, width * 8};
      c.a_strip = width / 64;
      c.b_strip = width == 128 ? 3 : 0;
      expect_product(c, std::to_string(width).c_str());
    }
}

TEST(Wgmma, Transposed) {
  for (int width : {16, 32, 64, 128})
    for (int which : {1, 2, 3}) {
      Case c;
      c.columns = 136;
      Layout transposed{width, true, 0, 0};
      // Chunks or lines of several groups, with gaps, so that no offset can be mistaken for another.
      transposed.leading = width == 16 ? 3 * 2048 : 3072;
      transposed.stride = width == 16 ? 256 : 3072 * 9;
      if (which & 1) c.b_layout = transposed;
      if (which & 2) c.a_layout = transposed;
      if (width != 16 && which & 2) c.a_layout.stride = 3072 * 8;
      if (width != 16) c.b_layout.leading = which & 1 ? 1024 : 16, c.b_layout.stride = which & 1 ? 1024 * 18 : 1024;
      expect_product(c, (std::to_string(width) + " " + std::to_string(which)).c_str());
    }
}

TEST(Wgmma, NothingLandsWithoutItsWait) {
  Case c;
  c.end = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;\n";
  Outcome one_left = run(c);
  c.end = "wgmma.wait_group.sync.aligned 0;\n";
  Outcome uncommitted = run(c);
  ASSERT_EQ(one_left.result, CUDA_SUCCESS);
  const char *seed = std::getenv("FA_EMU_SEED");
  if (seed && std::string(seed) != "0") GTEST_SKIP() << "under a seed products may land early";
  EXPECT_EQ(one_left.after, one_left.before);
  EXPECT_EQ(uncommitted.after, uncommitted.before);
}

int code_of(uint64_t break_a) {
  return run(Case{}, break_a).result;
}

TEST(WgmmaFaults, DescriptorsThatAreNone) {
  // The constant of tcgen05's descriptors; an operand that runs out of the shared memory of the block.
  EXPECT_EXIT(std::_Exit(code_of(uint64_t{1} << 46) == CUDA_ERROR_ILLEGAL_INSTRUCTION ? 0 : 1),
              testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::_Exit(code_of(uint64_t{0x2000} << 32) == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 1),
              testing::ExitedWithCode(0), "");
}

}  // namespace
