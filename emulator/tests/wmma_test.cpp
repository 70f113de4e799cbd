// wmma: matrices loaded, multiplied and stored by every shape, type and layout, against plain products.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "client.h"

namespace {

using emulated::Array;

struct Case {
  const char *shape;
  int m, n, k;
  std::string type, sum, mma_types;  // of the factors and of the sums; as wmma.mma has them
  int registers_a, registers_b, registers_c;
  bool a_columns = false, b_columns = false, c_columns = false;
};

std::string registers(const char *name, int count) {
  std::string text = "{";
  for (int i = 0; i < count; i++) text += (i ? ", %" : "%") + std::string(name) + std::to_string(i);
  return text + "}";
}

int bytes_of(const std::string &type) {
  return type == "f64" ? 8 : type.ends_with("32") ? 4 : type.ends_with("16") ? 2 : 1;
}

/// Small integers are exact in every type.
uint64_t bits_of(const std::string &type, int value) {
  if (type[0] == 's' || type[0] == 'u') return static_cast<uint64_t>(static_cast<int64_t>(value));
  if (type == "f64") {
    double number = value;
    uint64_t bits;
    std::memcpy(&bits, &number, 8);
    return bits;
  }
  float number = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &number, 4);
  if (type == "bf16") return bits >> 16;
  if (type != "f16") return bits;
  _Float16 half = static_cast<_Float16>(value);
  uint16_t narrow;
  std::memcpy(&narrow, &half, 2);
  return narrow;
}

/// A matrix in memory with rows (or columns) that are `gap` elements longer than needed.
struct Stored {
  int rows, columns;
  bool by_columns;
  std::string type;
  static constexpr int gap = 8;
  int stride() const { return (by_columns ? rows : columns) + gap; }
  size_t at(int row, int column) const {
    int index = by_columns ? column * stride() + row : row * stride() + column;
    return static_cast<size_t>(index * bytes_of(type));
  }
  std::vector<uint8_t> bytes(const std::vector<int> &values) const {
    std::vector<uint8_t> memory(static_cast<size_t>((by_columns ? columns : rows) * stride() * bytes_of(type)), 0x55);
    for (int row = 0; row < rows; row++)
      for (int column = 0; column < columns; column++) {
        uint64_t bits = bits_of(type, values[static_cast<size_t>(row * columns + column)]);
        std::memcpy(&memory[at(row, column)], &bits, static_cast<size_t>(bytes_of(type)));
      }
    return memory;
  }
};

std::vector<int> numbers(int count, bool positive, std::mt19937 &random) {
  std::vector<int> values(static_cast<size_t>(count));
  for (int &value : values) value = static_cast<int>(random() % 9) - (positive ? 0 : 4);
  return values;
}

void check(const Case &c) {
  emulated::start();
  std::mt19937 random(7);
  Stored a{c.m, c.k, c.a_columns, c.type}, b{c.k, c.n, c.b_columns, c.type}, sums{c.m, c.n, c.c_columns, c.sum};
  bool positive = c.type[0] == 'u';
  std::vector<int> of_a = numbers(c.m * c.k, positive, random), of_b = numbers(c.k * c.n, positive, random);
  std::vector<int> of_c = numbers(c.m * c.n, false, random), expected = of_c;
  for (int row = 0; row < c.m; row++)
    for (int column = 0; column < c.n; column++)
      for (int k = 0; k < c.k; k++)
        expected[static_cast<size_t>(row * c.n + column)] +=
            of_a[static_cast<size_t>(row * c.k + k)] * of_b[static_cast<size_t>(k * c.n + column)];
  Array<uint8_t> in_a(a.bytes(of_a)), in_b(b.bytes(of_b)), in_c(sums.bytes(of_c));
  std::string held = c.type == "f64" ? ".b64" : ".b32";
  auto order = [](bool columns) { return std::string(columns ? "col" : "row"); };
  auto load = [&](const char *which, const Stored &matrix, int count, const char *address) {
    return std::string("wmma.load.") + which + ".sync.aligned." + order(matrix.by_columns) + "." + c.shape +
           ".global." + matrix.type + " " + registers(which, count) + ", [" + address + "], " +
           std::to_string(matrix.stride()) + ";\n";
  };
  std::string text =
      ".version 8.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) {\n.reg " +
      held + " %a<8>; .reg " + held + " %b<8>; .reg " + held + " %c<8>; .reg " + held +
      " %d<8>; .reg .b64 %p<3>;\n"
      "ld.param.u64 %p0, [a]; ld.param.u64 %p1, [b]; ld.param.u64 %p2, [c];\n" +
      load("a", a, c.registers_a, "%p0") + load("b", b, c.registers_b, "%p1") + load("c", sums, c.registers_c, "%p2") +
      "wmma.mma.sync.aligned." + order(c.a_columns) + "." + order(c.b_columns) + "." + c.shape +
      (c.type == "f64" ? ".rn." : ".") + c.mma_types + " " + registers("d", c.registers_c) + ", " +
      registers("a", c.registers_a) + ", " + registers("b", c.registers_b) + ", " + registers("c", c.registers_c) +
      ";\n" + "wmma.store.d.sync.aligned." + order(c.c_columns) + "." + c.shape + ".global." + c.sum + " [%p2], " +
      registers("d", c.registers_c) + ", " + std::to_string(sums.stride()) + ";\nret;\n}\n";
  ASSERT_EQ(emulated::launch(emulated::kernel(text, "k"), {1}, {32}, 0, in_a.address, in_b.address, in_c.address),
            CUDA_SUCCESS);
  ASSERT_EQ(in_c.values(), sums.bytes(expected)) << text;
}

TEST(Wmma, EveryShapeAndLayout) {
  std::vector<Case> cases;
  struct Size {
    const char *shape;
    int m, n;
  };
  for (const Size &size : {Size{"m16n16k16", 16, 16}, {"m32n8k16", 32, 8}, {"m8n32k16", 8, 32}}) {
    for (const char *sum : {"f16", "f32"})
      cases.push_back({size.shape, size.m, size.n, 16, "f16", sum, std::string(sum) + "." + sum, 8, 8,
                       std::string(sum) == "f16" ? 4 : 8});
    int wide_a = size.m / 4, wide_b = size.n / 4;  // registers of 16-bit factors, each element once
    cases.push_back({size.shape, size.m, size.n, 16, "bf16", "f32", "f32.bf16.bf16.f32", wide_a, wide_b, 8});
    for (std::string type : {"s8", "u8"})
      cases.push_back({size.shape, size.m, size.n, 16, type, "s32", "s32." + type + "." + type + ".s32", wide_a / 2,
                       wide_b / 2, 8});
  }
  cases.push_back({"m16n16k8", 16, 16, 8, "tf32", "f32", "f32.tf32.tf32.f32", 4, 4, 8});
  cases.push_back({"m8n8k4", 8, 8, 4, "f64", "f64", "f64.f64.f64.f64", 1, 1, 2});
  for (Case one : cases)
    for (int layouts = 0; layouts < 8; layouts++) {
      one.a_columns = layouts & 1;
      one.b_columns = layouts & 2;
      one.c_columns = layouts & 4;
      check(one);
    }
}

}  // namespace
