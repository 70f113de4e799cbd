// Boxes of tensors of 4- and 6-bit elements: packed in global memory, and in shared memory packed or by sixteen in
// 16 bytes.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "box_case.h"
#include "reported.h"

namespace {

using emulated::Array;
using emulated::BoxCase;
using emulated::Coordinates;
using emulated::launch;
using emulated::Map;

using Bytes = std::vector<uint8_t>;

struct Packing {
  unsigned type, group, group_in_shared;  // bytes of 16 elements
};
constexpr Packing packings[] = {{13, 8, 8}, {14, 8, 16}, {15, 12, 16}};

constexpr unsigned columns = 256, tensor_rows = 6, box_columns = 128, box_rows = 4;

CUfunction kernel(const char *name) {
  std::string text = emulated::read_file(TEST_KERNELS "/async.sm_90a.ptx");
  const std::string target = ".target sm_90a";
  return emulated::kernel(text.replace(text.find(target), target.size(), ".target sm_100a"), name);
}

/// A tensor of packed elements. The box in shared memory, by which bytes are found there, is one of bytes.
struct Packed {
  Packing packing;
  unsigned swizzle;
  BoxCase map, shared;

  Packed(Packing given, unsigned chosen) : packing(given), swizzle(chosen) {
    map.type = packing.type;
    map.rank = shared.rank = 2;
    map.swizzle = shared.swizzle = swizzle;
    map.extent[0] = columns;
    map.extent[1] = tensor_rows;
    map.stride[1] = (columns / 16 * packing.group + 31) / 32 * 32;
    map.box[0] = box_columns;
    map.box[1] = shared.box[1] = box_rows;
    shared.box[0] = box_columns / 16 * packing.group_in_shared;
  }
  unsigned copied() const { return box_rows * box_columns / 16 * packing.group; }
  unsigned image() const { return box_rows * shared.pitch(); }

  /// f(place in the tensor or -1, place in shared memory) for every byte that a box has from there.
  template <class F>
  void each_byte(int column, int row, F f) const {
    for (unsigned y = 0; y < box_rows; y++)
      for (unsigned group = 0; group < box_columns / 16; group++)
        for (unsigned byte = 0; byte < packing.group; byte++) {
          int at_column = column + static_cast<int>(group * 16), at_row = row + static_cast<int>(y);
          bool inside = at_column >= 0 && at_column < int{columns} && at_row >= 0 && at_row < int{tensor_rows};
          int64_t from =
              inside ? at_row * static_cast<int64_t>(map.stride[1]) + at_column / 16 * packing.group + byte : -1;
          f(from, shared.place(y, group * packing.group_in_shared + byte));
        }
  }
};

Bytes random_bytes(size_t count) {
  std::mt19937 random(31);
  Bytes bytes(count);
  for (uint8_t &byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

TEST(PackedTensor, Load) {
  emulated::start();
  for (const Packing &packing : packings)
    for (unsigned swizzle : {0u, 3u})
      for (auto [column, row] : {std::pair{128, 1}, {-128, 0}, {0, 4}, {0, -1}}) {
        Packed one(packing, swizzle);
        Bytes tensor = random_bytes(one.map.tensor_bytes()), expected(one.image(), 0xee);
        one.each_byte(column, row, [&](int64_t from, uint32_t to) {
          expected[to] = from < 0 ? 0 : tensor[static_cast<size_t>(from)];
        });
        Array<uint8_t> memory(tensor), out(Bytes(one.image()));
        ASSERT_EQ(launch(kernel("load_box"), {1}, {64}, 32768, one.map.encode(memory.address),
                         Coordinates{{column, row, 0, 0, 0}}, 2, static_cast<int>(one.copied()),
                         static_cast<int>(one.image()), out.address),
                  CUDA_SUCCESS);
        EXPECT_EQ(out.values(), expected) << "type " << packing.type << " swizzle " << swizzle << " at " << column;
      }
}

TEST(PackedTensor, Store) {
  emulated::start();
  for (const Packing &packing : packings) {
    Packed one(packing, 3);
    Bytes tensor = random_bytes(one.map.tensor_bytes()), expected = tensor;
    std::vector<uint32_t> image(one.image() / 4);
    for (size_t i = 0; i < image.size(); i++) image[i] = static_cast<uint32_t>(1000 + i);
    const auto *bytes = reinterpret_cast<const uint8_t *>(image.data());
    one.each_byte(128, 3, [&](int64_t to, uint32_t from) {
      if (to >= 0) expected[static_cast<size_t>(to)] = bytes[from];
    });
    Array<uint8_t> memory(tensor);
    ASSERT_EQ(launch(kernel("store_box"), {1}, {64}, 32768, one.map.encode(memory.address), 128, 3,
                     static_cast<int>(image.size()), 0),
              CUDA_SUCCESS);
    EXPECT_EQ(memory.values(), expected) << "type " << packing.type;
  }
}

/// A box begins where its elements begin a byte, or a group of 128.
TEST(PackedTensor, WhereABoxBegins) {
  auto reported = [](const Packing &packing, int column) {
    return emulated::reported([&] {
      emulated::start();
      Packed one(packing, 0);
      Array<uint8_t> memory(Bytes(one.map.tensor_bytes())), out(Bytes(one.image()));
      std::fprintf(stderr, "ends with %d\n",
                   launch(kernel("load_box"), {1}, {64}, 32768, one.map.encode(memory.address),
                          Coordinates{{column, 0, 0, 0, 0}}, 2, static_cast<int>(one.copied()),
                          static_cast<int>(one.image()), out.address));
    });
  };
  auto gives = [](const std::string &text, const char *error) {
    EXPECT_NE(text.find(error), std::string::npos) << text;
  };
  gives(reported(packings[0], 2), "ends with 0");
  gives(reported(packings[0], 3), "begins at element 3 of its rows, and must at a multiple of 2 of packed elements");
  gives(reported(packings[1], 64), "begins at element 64 of its rows, and must at a multiple of 128");
  gives(reported(packings[2], -64), "begins at element -64 of its rows, and must at a multiple of 128");
}

}  // namespace
