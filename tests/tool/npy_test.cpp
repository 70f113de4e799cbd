// .npy files: those that are read, those that are refused and with which words, those that are written.
#include "npy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "error.h"
#include "file.h"
#include "npy_header.h"
#include "temporary.h"

namespace fa::tool {
namespace {

std::span<const std::byte> bytes_of(const std::string &text) {
  return std::as_bytes(std::span(text));
}

/// A file with this dictionary and these data.
std::string file_of(const std::string &dictionary, const std::string &data, int version = 1) {
  std::string header = "\x93NUMPY";
  header += static_cast<char>(version);
  header += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) header += static_cast<char>(dictionary.size() >> (8 * i));
  return header + dictionary + data;
}

Array parse(const std::string &file) {
  return parse_npy(bytes_of(file), "x.npy");
}

/// The text with which a file is refused.
std::string refusal(const std::string &file) {
  try {
    parse(file);
  } catch (const BadInput &error) {
    return error.what();
  }
  return "accepted";
}

void expect_refusal(const std::string &file, const std::string &part) {
  const std::string text = refusal(file);
  EXPECT_TRUE(text.starts_with("x.npy: ")) << text;
  EXPECT_NE(text.find(part), text.npos) << text;
}

TEST(Npy, RoundTripsEveryTypeAndShape) {
  const std::vector<std::vector<int64_t>> shapes = {{}, {0}, {5}, {2, 3}, {2, 0, 4}, {2, 3, 4, 5}};
  for (const NpyType type : {NpyType::f16, NpyType::bf16, NpyType::f32, NpyType::f64, NpyType::boolean, NpyType::i8,
                             NpyType::u8, NpyType::v8, NpyType::u16, NpyType::i32, NpyType::i64}) {
    for (const auto &shape : shapes) {
      Array array = make_array(type, shape);
      for (size_t i = 0; i < array.bytes.size(); ++i) array.bytes[i] = std::byte(37 * i + 1);
      const Array back = parse_npy(format_npy(array), "x.npy");
      EXPECT_EQ(back.type, type);
      EXPECT_EQ(back.shape, shape);
      EXPECT_EQ(back.bytes, array.bytes);
    }
  }
}

TEST(Npy, WritesWhatNumPyWrites) {
  const std::vector<std::byte> file = format_npy(make_array(NpyType::f32, {3, 4}));
  const std::string text(reinterpret_cast<const char *>(file.data()), file.size());
  EXPECT_EQ(text.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(text.substr(10, 61), "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }  ");
  EXPECT_EQ(text[127], '\n');
  EXPECT_EQ(file.size(), 128u + 48u);
}

TEST(Npy, ReadsAllVersions) {
  for (const int version : {1, 2, 3}) {
    const Array array =
        parse(file_of("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }\n", "\x05\x06", version));
    EXPECT_EQ(array.shape, std::vector<int64_t>{2});
    EXPECT_EQ(array.value(1), 6);
  }
}

TEST(Npy, ReadsKeysInAnyOrderAndSpelling) {
  const Array array = parse(file_of("{\"shape\":(1L,2L),\"descr\":\"=u1\",\"fortran_order\":False}", "\x05\x06"));
  EXPECT_EQ(array.shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(parse(file_of("{'descr': 'u1', 'fortran_order': False, 'shape': ()}", "\x07")).value(0), 7);
}

TEST(Npy, TransposesFortranOrder) {
  const Array array = parse(file_of("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", "\1\2\3\4\5\6"));
  const std::vector<int> expected = {1, 3, 5, 2, 4, 6};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(array.value(i), expected[static_cast<size_t>(i)]);
}

TEST(Npy, SwapsTheOtherByteOrder) {
  const std::string data("\x3f\x80\x00\x00\xc0\x00\x00\x00", 8);
  const Array array = parse(file_of("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }\n", data));
  EXPECT_EQ(array.value(0), 1.0);
  EXPECT_EQ(array.value(1), -2.0);
}

TEST(Npy, ReadsBfloat16InEverySpelling) {
  const std::string data("\x80\x3f", 2);
  for (const char *descr : {"<V2", "|V2", "bfloat16"}) {
    const Array array =
        parse(file_of(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (1,), }}", descr), data));
    EXPECT_EQ(array.type, NpyType::bf16);
    EXPECT_EQ(array.value(0), 1.0);
  }
}

TEST(Npy, IgnoresWhatFollowsTheArray) {
  EXPECT_EQ(parse(file_of("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }\n", "\x05more")).elements(), 1);
}

TEST(Npy, RefusesWhatIsNoNpyFile) {
  expect_refusal("", "is empty");
  expect_refusal("PK\x03\x04 and so on", "unpack it");
  expect_refusal("hello, world", "is not a .npy file");
  expect_refusal("\x93NUMPX\x01", "is not a .npy file");
  expect_refusal("\x93NUM", "truncated");
  expect_refusal(std::string("\x93NUMPY\x09\x00\x10\x00", 10), "version 9.0");
  expect_refusal(std::string("\x93NUMPY\x01\x00\x76\x00{", 11), "truncated: 11 bytes, but its header alone has 128");
  expect_refusal(std::string("\x93NUMPY\x02\x00\x76\x00\x00", 11), "truncated");
  expect_refusal(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12), "header: 4294967295 bytes");
}

TEST(Npy, RefusesTruncatedData) {
  expect_refusal(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", "12345678901234567890123"),
                 "truncated: float32 (2, 3) needs 24 bytes after the header, there are 23");
}

TEST(Npy, RefusesMalformedDictionaries) {
  for (const auto &[dictionary, part] : std::vector<std::pair<std::string, std::string>>{
           {"", "expected '{'"},
           {"{", "expected a string"},
           {"{'descr'", "expected ':'"},
           {"{'descr", "a string without an end"},
           {"{'descr': '<f4', 'shape': (2,)}", "'fortran_order' is missing"},
           {"{'fortran_order': False, 'shape': (2,)}", "'descr' is missing"},
           {"{'descr': '<f4', 'fortran_order': False}", "'shape' is missing"},
           {"{'descr': '<f4', 'descr': '<f4'}", "'descr' a second time"},
           {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", "expected True or False"},
           {"{'descr': '<f4', 'fortran_order': False, 'shape': 2}", "expected '('"},
           {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", "expected a dimension"},
           {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", "expected ')'"},
           {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "beyond 64 bits"},
           {"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999)}",
            "does not fit in any memory"},
           {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}", "unknown key 'more'"},
           {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", "text after the dictionary"},
           {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", "structured type"},
           {"{'descr': '<c8', 'fortran_order': False, 'shape': (2,)}", "elements of type '<c8'; float32,"}}) {
    expect_refusal(file_of(dictionary, "12345678"), part);
  }
}

TEST(Npy, LiesInAHeaderCostNoMemory) {
  expect_refusal(file_of("{'descr': '<f8', 'fortran_order': True, 'shape': (1000000, 1000000), }\n", "1"), "truncated");
}

TEST(Npy, ConvertsBetweenFloatingTypes) {
  Array array = make_array(NpyType::f64, {6});
  const double values[] = {0, -1.5, 65504, 1e-7, std::numeric_limits<double>::infinity(), std::nan("")};
  for (size_t i = 0; i < 6; ++i) array.data<double>()[i] = values[i];
  for (const NpyType type : {NpyType::f32, NpyType::f16, NpyType::bf16}) {
    const Array other = converted(array, type);
    EXPECT_EQ(other.type, type);
    EXPECT_EQ(other.value(0), 0);
    EXPECT_EQ(other.value(1), -1.5);
    EXPECT_NEAR(other.value(2), 65504, 65504.0 / 256);
    EXPECT_NEAR(other.value(3), 1e-7, 6e-8);
    EXPECT_EQ(other.value(4), values[4]);
    EXPECT_TRUE(std::isnan(other.value(5)));
  }
  EXPECT_THROW(converted(array, NpyType::i32), BadInput);
}

TEST(Npy, ReadsFromFilesAndNamesThem) {
  const test::TemporaryFolder folder;
  OutputFile file(folder / "a.npy");
  file.write(format_npy(make_array(NpyType::i32, {7})));
  file.commit();
  EXPECT_EQ(read_npy(folder / "a.npy").shape, std::vector<int64_t>{7});
  try {
    read_npy(folder / "missing.npy");
    FAIL();
  } catch (const BadInput &error) {
    EXPECT_EQ(error.what(), folder / "missing.npy" + ": cannot be opened: No such file or directory");
  }
  EXPECT_THROW(read_npy(folder / ""), BadInput);
}

}  // namespace
}  // namespace fa::tool
