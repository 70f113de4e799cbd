// Tensor maps through the API: the limits of every argument from both sides, and each argument in its place.
#include <functional>

#include "../tensor_map_arguments.h"
#include "exec/tensor_map.h"
#include "fixture.h"

namespace {

using namespace emulated;
using Arguments = TensorMapArguments;
using fa::emu::TensorMap;

struct alignas(64) Map {
  uint8_t bytes[fa::emu::tensor_map_bytes] = {};
};

CUresult encode(const Arguments &arguments, void *out) {
  return arguments.encode([](auto... each) { return call("cuTensorMapEncodeTiled", each...); }, out);
}

/// The arguments of f16 with an interleave and the only swizzle that 32 bytes may have.
void interleave(Arguments &a, uint32_t kind) {
  a.interleave = kind;
  a.swizzle = 1;
  a.strides[0] = 224;
}
/// Sixteen 4-bit elements in 8 bytes (13), or 4- or 6-bit ones in 16 bytes of shared memory (14, 15).
void packed(Arguments &a, uint32_t type) {
  a.type = type;
  a.fill = 0;
  a.extents[0] = 128;
  a.strides[0] = 224;
  a.box[0] = 128;
}

struct Limit {
  const char *what;
  std::function<void(Arguments &)> last_good, first_bad;
};

const Limit limits[] = {
    {"type", [](Arguments &a) { packed(a, 15); }, [](Arguments &a) { packed(a, 16); }},
    {"least rank", [](Arguments &a) { a.rank = 1; }, [](Arguments &a) { a.rank = 0; }},
    {"greatest rank", [](Arguments &a) { a.rank = 5; }, [](Arguments &a) { a.rank = 6; }},
    {"address", [](Arguments &a) { a.address = 0; }, [](Arguments &a) { a.address = 8; }},
    {"alignment", [](Arguments &a) { a.address += 16; }, [](Arguments &a) { a.address += 8; }},
    {"alignment with interleave", [](Arguments &a) { interleave(a, 2), a.address += 32; },
     [](Arguments &a) { interleave(a, 2), a.address += 16; }},
    {"alignment with the other interleave", [](Arguments &a) { interleave(a, 1), a.address += 16; },
     [](Arguments &a) { interleave(a, 1), a.address += 8; }},
    {"alignment of packed elements", [](Arguments &a) { packed(a, 14), a.address += 32; },
     [](Arguments &a) { packed(a, 14), a.address += 16; }},
    {"least extent", [](Arguments &a) { a.extents[1] = 1; }, [](Arguments &a) { a.extents[1] = 0; }},
    {"greatest extent", [](Arguments &a) { a.extents[2] = uint64_t{1} << 32; },
     [](Arguments &a) { a.extents[2] = (uint64_t{1} << 32) + 1; }},
    {"extent of the last dimension", [](Arguments &a) { a.rank = 5, a.extents[4] = 7; },
     [](Arguments &a) { a.rank = 5, a.extents[4] = 0; }},
    {"extent of pairs", [](Arguments &a) { packed(a, 13), a.extents[0] = 130; },
     [](Arguments &a) { packed(a, 13), a.extents[0] = 131; }},
    {"extent of packed elements", [](Arguments &a) { packed(a, 15), a.extents[0] = 256; },
     [](Arguments &a) { packed(a, 15), a.extents[0] = 192; }},
    {"alignment of strides", [](Arguments &a) { a.strides[1] += 16; }, [](Arguments &a) { a.strides[1] += 8; }},
    {"alignment of strides with interleave", [](Arguments &a) { interleave(a, 2), a.strides[1] += 32; },
     [](Arguments &a) { interleave(a, 2), a.strides[1] += 16; }},
    {"alignment of strides of packed elements", [](Arguments &a) { packed(a, 14), a.strides[1] += 32; },
     [](Arguments &a) { packed(a, 14), a.strides[1] += 16; }},
    {"greatest stride", [](Arguments &a) { a.strides[1] = (uint64_t{1} << 40) - 16; },
     [](Arguments &a) { a.strides[1] = uint64_t{1} << 40; }},
    {"stride of the last dimension", [](Arguments &a) { a.rank = 5, a.strides[3] = 16; },
     [](Arguments &a) { a.rank = 5, a.strides[3] = 24; }},
    {"least box", [](Arguments &a) { a.box[1] = 1; }, [](Arguments &a) { a.box[1] = 0; }},
    {"greatest box", [](Arguments &a) { a.box[1] = 256; }, [](Arguments &a) { a.box[1] = 257; }},
    {"greatest inner box", [](Arguments &a) { a.swizzle = 0, a.box[0] = 256; },
     [](Arguments &a) { a.swizzle = 0, a.box[0] = 264; }},
    {"box of the last dimension", [](Arguments &a) { a.rank = 5, a.box[4] = 256; },
     [](Arguments &a) { a.rank = 5, a.box[4] = 257; }},
    {"inner box of 16 bytes", [](Arguments &a) { a.box[0] = 56; }, [](Arguments &a) { a.box[0] = 60; }},
    {"inner box with interleave", [](Arguments &a) { interleave(a, 1), a.box[0] = 60; },
     [](Arguments &a) { interleave(a, 0), a.box[0] = 12; }},
    {"inner box of packed elements", [](Arguments &a) { packed(a, 14); },
     [](Arguments &a) { packed(a, 14), a.box[0] = 64; }},
    {"swizzle of 32 bytes", [](Arguments &a) { a.swizzle = 1, a.box[0] = 16; },
     [](Arguments &a) { a.swizzle = 1, a.box[0] = 24; }},
    {"swizzle of 64 bytes", [](Arguments &a) { a.swizzle = 2, a.box[0] = 32; },
     [](Arguments &a) { a.swizzle = 2, a.box[0] = 40; }},
    {"swizzle of 128 bytes", [](Arguments &a) { a.swizzle = 3, a.box[0] = 64; },
     [](Arguments &a) { a.swizzle = 3, a.box[0] = 72; }},
    {"swizzle of 128 bytes in atoms of 64", [](Arguments &a) { a.swizzle = 6, a.box[0] = 64; },
     [](Arguments &a) { a.swizzle = 6, a.box[0] = 72; }},
    {"swizzle", [](Arguments &a) { a.swizzle = 6; }, [](Arguments &a) { a.swizzle = 7; }},
    {"least step", [](Arguments &a) { a.steps[1] = 1; }, [](Arguments &a) { a.steps[1] = 0; }},
    {"greatest step", [](Arguments &a) { a.steps[1] = 8; }, [](Arguments &a) { a.steps[1] = 9; }},
    {"step of the last dimension", [](Arguments &a) { a.rank = 5, a.steps[4] = 8; },
     [](Arguments &a) { a.rank = 5, a.steps[4] = 9; }},
    {"interleave", [](Arguments &a) { interleave(a, 2); }, [](Arguments &a) { interleave(a, 3); }},
    {"rank with interleave", [](Arguments &a) { interleave(a, 1), a.rank = 3; },
     [](Arguments &a) { interleave(a, 1), a.rank = 2; }},
    {"swizzle with interleave", [](Arguments &a) { interleave(a, 1), a.swizzle = 2; },
     [](Arguments &a) { interleave(a, 2), a.swizzle = 2; }},
    {"promotion", [](Arguments &a) { a.promotion = 3; }, [](Arguments &a) { a.promotion = 4; }},
    {"fill", [](Arguments &a) { a.fill = 0; }, [](Arguments &a) { a.fill = 2; }},
    {"NaN in integers", [](Arguments &a) { a.type = 9; }, [](Arguments &a) { a.type = 1; }},
    {"NaN in 64-bit integers", [](Arguments &a) { a.type = 8, a.box[0] = 16; },
     [](Arguments &a) { a.type = 5, a.box[0] = 16; }},
};

TEST(TensorMaps, EveryLimitFromBothSides) {
  start();
  for (const Limit &limit : limits) {
    Arguments good, bad;
    limit.last_good(good);
    limit.first_bad(bad);
    Map map;
    EXPECT_EQ(encode(good, map.bytes), CUDA_SUCCESS) << limit.what;
    Map none;
    TensorMap decoded;
    EXPECT_EQ(encode(bad, none.bytes), CUDA_ERROR_INVALID_VALUE) << limit.what;
    EXPECT_FALSE(fa::emu::decode(none.bytes, decoded)) << limit.what << ": a map is written none the less";
  }
  Map map;
  EXPECT_EQ(encode({}, map.bytes + 32), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encode({}, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST(TensorMaps, NoArgumentMayBeMissing) {
  start();
  for (int missing = 0; missing < 5; missing++) {
    Map map;
    CUresult code = Arguments().encode(
        [&](void *out, uint32_t type, uint32_t rank, void *address, const uint64_t *extents, const uint64_t *strides,
            const uint32_t *box, const uint32_t *steps, auto... rest) {
          auto given = [&](int number, auto *pointer) { return number == missing ? nullptr : pointer; };
          return call("cuTensorMapEncodeTiled", out, type, rank, address, given(1, extents), given(2, strides),
                      given(3, box), given(4, steps), rest...);
        },
        map.bytes);
    EXPECT_EQ(code, missing == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE) << missing;
  }
}

void expect_equal(const TensorMap &map, const Arguments &arguments) {
  EXPECT_EQ(static_cast<uint32_t>(map.type), arguments.type);
  EXPECT_EQ(map.rank, arguments.rank);
  EXPECT_EQ(map.address, arguments.address);
  EXPECT_EQ(static_cast<uint32_t>(map.interleave), arguments.interleave);
  EXPECT_EQ(static_cast<uint32_t>(map.swizzle), arguments.swizzle);
  EXPECT_EQ(map.promotion, arguments.promotion);
  EXPECT_EQ(static_cast<uint32_t>(map.fill), arguments.fill);
  for (uint32_t i = 0; i < arguments.rank; i++) {
    EXPECT_EQ(map.extent[i], arguments.extents[i]) << i;
    EXPECT_EQ(map.step[i], arguments.steps[i]) << i;
    if (i > 0) {
      EXPECT_EQ(map.stride[i], arguments.strides[i - 1]) << i;
    }
  }
}

TEST(TensorMaps, EveryArgumentInItsPlace) {
  start();
  Arguments different;
  different.type = 7;
  different.rank = 5;
  different.interleave = 1;
  different.swizzle = 2;
  different.promotion = 3;
  different.fill = 0;
  for (uint32_t i = 0; i < 5; i++) {
    different.extents[i] = 50 + i;
    different.box[i] = 16 + i;
    different.steps[i] = 1 + i;
    if (i > 0) different.strides[i - 1] = 1024 * i;
  }
  for (const Arguments &arguments : {Arguments(), different}) {
    Map map;
    TensorMap decoded;
    ASSERT_EQ(encode(arguments, map.bytes), CUDA_SUCCESS);
    ASSERT_TRUE(fa::emu::decode(map.bytes, decoded));
    expect_equal(decoded, arguments);
    EXPECT_FALSE(decoded.im2col);
    for (uint32_t i = 0; i < arguments.rank; i++) EXPECT_EQ(decoded.box[i], arguments.box[i]) << i;

    Arguments moved = arguments;
    moved.address = 0x7f0000002000;
    EXPECT_EQ(
        call("cuTensorMapReplaceAddress", static_cast<void *>(map.bytes), reinterpret_cast<void *>(moved.address)),
        CUDA_SUCCESS);
    EXPECT_EQ(
        call("cuTensorMapReplaceAddress", static_cast<void *>(map.bytes), reinterpret_cast<void *>(moved.address + 8)),
        CUDA_ERROR_INVALID_VALUE);
    ASSERT_TRUE(fa::emu::decode(map.bytes, decoded));
    expect_equal(decoded, moved);
  }
  Map none;
  EXPECT_EQ(call("cuTensorMapReplaceAddress", static_cast<void *>(none.bytes), reinterpret_cast<void *>(0x1000)),
            CUDA_ERROR_INVALID_VALUE);
}

TEST(TensorMaps, Pixels) {
  start();
  const int lower[] = {-3, -2}, upper[] = {4, 5};
  auto encode_pixels = [&](const Arguments &a, uint32_t channels, uint32_t pixels, void *out) {
    return call("cuTensorMapEncodeIm2col", out, a.type, a.rank, reinterpret_cast<void *>(a.address), &a.extents[0],
                &a.strides[0], &lower[0], &upper[0], channels, pixels, &a.steps[0], a.interleave, a.swizzle,
                a.promotion, a.fill);
  };
  Arguments arguments;
  arguments.rank = 4;
  Map map;
  TensorMap decoded;
  ASSERT_EQ(encode_pixels(arguments, 48, 1024, map.bytes), CUDA_SUCCESS);
  ASSERT_TRUE(fa::emu::decode(map.bytes, decoded));
  expect_equal(decoded, arguments);
  EXPECT_TRUE(decoded.im2col);
  EXPECT_EQ(decoded.channels, 48u);
  EXPECT_EQ(decoded.pixels, 1024u);
  for (size_t i = 0; i < 2; i++) {
    EXPECT_EQ(decoded.lower[i], lower[i]);
    EXPECT_EQ(decoded.upper[i], upper[i]);
  }
  EXPECT_EQ(encode_pixels(arguments, 48, 1025, map.bytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encode_pixels(arguments, 72, 1024, map.bytes), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
