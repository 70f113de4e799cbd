// The parser on nvcc's output, on text that inline assembly may hold, and on text that is not PTX.
#include "ptx/parser.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace {

using fa::emu::ptx::Module;
using fa::emu::ptx::OperandKind;
using fa::emu::ptx::parse;
using fa::emu::ptx::Parsed;
using fa::emu::ptx::Type;

std::string read(const std::string &name) {
  std::ifstream file(std::string(TEST_KERNELS "/") + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string in_kernel(const std::string &body) {
  return ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n" + body + "\nret;\n}\n";
}

TEST(Parser, WhatNvccWrites) {
  for (const char *name : {"basic.sm_80.ptx", "basic.sm_100.ptx"}) {
    Parsed parsed = parse(read(name));
    ASSERT_FALSE(parsed.error) << parsed.error->what();
    EXPECT_TRUE(parsed.module->function_index.count("block_sum"));
  }
}

TEST(Parser, PlacesAndWhatTheyAreInlinedAt) {
  Parsed parsed =
      parse(in_kernel(".reg .b32 r<2>;\n"
                      ".loc 1 20 3\n mov.b32 r0, 0;\n"
                      ".loc 2 88 5, function_name $L__info_string0, inlined_at 1 20 3\n"
                      ".loc 3 12 9, function_name $L__info_string1+6, inlined_at 2 88 5\n mov.b32 r0, 1;\n"
                      ".loc 3 0 9\n mov.b32 r0, 2;\n"
                      ".loc 3 12 9, function_name $L__info_string1, inlined_at 4 7 1\n mov.b32 r0, 3;\n"
                      ".loc 9 1 1\n mov.b32 r0, 4;") +
            ".file 1 \"/a/mma/kernel.cu\"\n.file 2 \"/a/mma/forward.cuh\", 17, 4\n.file 3 \"/a/b/tile.cuh\"\n"
            ".file 4 \"short.cuh\"\n");
  ASSERT_FALSE(parsed.error) << parsed.error->what();
  const auto &instructions = parsed.module->functions[0].instructions;
  const char *names[] = {"mma/kernel.cu:20", "b/tile.cuh:12, inlined at mma/forward.cuh:88, mma/kernel.cu:20",
                         "b/tile.cuh:12, inlined at mma/forward.cuh:88, mma/kernel.cu:20",
                         "b/tile.cuh:12, inlined at short.cuh:7", ""};
  for (size_t i = 0; i < std::size(names); i++) EXPECT_EQ(parsed.module->name_of(instructions[i].source), names[i]);
}

TEST(Parser, ScopesHideNames) {
  Parsed parsed =
      parse(in_kernel(".reg .b32 r<4>, x;\n"
                      "{ .reg .b64 x; mov.b64 x, 1; L: bra L; }\n"
                      "{ .reg .b16 r1; mov.b16{r1},r1; L: bra L; }\n"
                      "mov.b32 x, r3;"));
  ASSERT_FALSE(parsed.error) << parsed.error->what();
  const auto &function = parsed.module->functions[0];
  EXPECT_EQ(function.operands_of(function.instructions[0])[0].type, Type::b64);
  EXPECT_EQ(function.operands_of(function.instructions[1])[0].index, 1u);
  EXPECT_EQ(function.operands_of(function.instructions[3])[0].index, 3u);
  EXPECT_EQ(function.operands_of(function.instructions[4])[0].type, Type::b32);
}

TEST(Parser, Operands) {
  Parsed parsed =
      parse(in_kernel(".reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred %p<3>; .reg .f32 %f<2>;\n"
                      "ld.global.v4.u32 {%r0, _, %r2,\n %r3}, [%rd1+-84];\n"
                      "@!%p1 shfl.sync.bfly.b32 %r1|%p2, %r2, 0x10, 31, -1;\n"
                      "mov.f32 %f1, 0f3F800000; mov.b64 %rd1, p;\n"
                      "cp.async.bulk.tensor.2d.global.shared::cta [%rd1, {%r1, %r2}], [%r3];"));
  ASSERT_FALSE(parsed.error) << parsed.error->what();
  const auto &function = parsed.module->functions[0];
  auto load = function.operands_of(function.instructions[0]);
  EXPECT_EQ(function.children_of(load[0])[1].kind, OperandKind::sink);
  EXPECT_EQ(load[1].value, -84);
  auto shuffle = function.operands_of(function.instructions[1]);
  EXPECT_TRUE(function.instructions[1].guard_negated);
  EXPECT_EQ(shuffle[0].second, 2u + 9u + 3u);
  EXPECT_EQ(shuffle[2].value, 16);
  EXPECT_EQ(function.operands_of(function.instructions[2])[1].type, Type::f32);
  EXPECT_EQ(function.operands_of(function.instructions[3])[1].kind, OperandKind::variable);
  auto tensor = function.operands_of(function.instructions[4]);
  EXPECT_EQ(tensor[0].child_count, 2u);
}

TEST(Parser, ErrorsNameTheirLine) {
  Parsed parsed = parse(in_kernel("add.s32 %r1, 2, 3;"));
  ASSERT_TRUE(parsed.error);
  EXPECT_EQ(parsed.error->line, 5u);
  EXPECT_NE(parsed.error->what().find("%r1"), std::string::npos);
}

/// Every prefix and many damaged copies of real PTX: a module or an error, nothing else.
TEST(Parser, DamagedText) {
  std::string text = read("basic.sm_80.ptx");
  ASSERT_FALSE(text.empty());
  for (size_t end = 0; end < text.size(); end += 7) parse(text.substr(0, end));
  const std::string bytes = "{}[]();,.:%@!|+-0fx\"\n\0/*";
  for (size_t i = 0; i < 3000; i++) {
    std::string damaged = text;
    for (size_t k = 0; k < 3; k++) damaged[(i * 7919 + k * 104729) % text.size()] = bytes[(i * 31 + k) % bytes.size()];
    parse(damaged);
  }
}

}  // namespace
