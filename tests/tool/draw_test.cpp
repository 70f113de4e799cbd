// `fa draw`: its picture, read back from the SVG, is the mask that fa.h defines, drawn here by hand.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "arrays.h"
#include "program.h"
#include "svg_parts.h"
#include "temporary.h"

namespace {

using fa::tool::Array;
using fa::tool::make_array;
using fa::tool::NpyType;
using test::between;
using test::Finished;
using test::save;

/// The squares of a panel: a line for each row that has any, '#' attended, '.' hidden, 's' the sink.
std::string squares(const std::string &panel) {
  std::map<int, std::map<int, char>> rows;
  for (const std::string &path : between(panel, "<path class=\"", "/>")) {
    const char c = path.starts_with("attended") ? '#' : path.starts_with("sink") ? 's' : '.';
    for (const std::string &square : between(path, "M", "z")) {
      int x = 0, y = 0;
      EXPECT_EQ(std::sscanf(square.c_str(), "%d %dh", &x, &y), 2) << square;
      rows[y][x] = c;
    }
  }
  std::string text;
  for (const auto &[y, row] : rows) {
    for (const auto &[x, c] : row) text += c;
    text += '\n';
  }
  return text;
}

struct Picture {
  std::string svg;
  std::vector<std::string> panels;  // as squares, after the title where there is one
  std::string weights;              // "33 67 | 20 80": by rows
};

Picture draw(std::vector<std::string> options) {
  options.insert(options.begin(), "draw");
  const Finished f = test::fa(options);
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(f.err, "");
  Picture picture;
  picture.svg = f.out;
  for (const std::string &panel : between(f.out, "<g transform", "</g>")) {
    std::string title, y;
    for (const std::string &text : between(panel, "<text class=\"", "</text>")) {
      const std::string content = text.substr(text.find('>') + 1);
      if (text.starts_with("title")) title = content + "\n";
      if (!text.starts_with("weight")) continue;
      const std::string place = between(text, " y=\"", "\"").at(0);
      if (!picture.weights.empty()) picture.weights += place == y ? " " : " | ";
      picture.weights += content;
      y = place;
    }
    picture.panels.push_back(title + squares(panel));
  }
  return picture;
}

void expect_drawn(const std::vector<std::string> &options, const std::vector<std::string> &panels) {
  SCOPED_TRACE(testing::PrintToString(options));
  EXPECT_EQ(draw(options).panels, panels);
}

TEST(Draw, MasksOfPositions) {
  expect_drawn({"--queries", "2", "--keys", "3"}, {"###\n###\n"});
  expect_drawn({"--queries", "3", "--keys", "5", "--causal"}, {"###..\n####.\n#####\n"});
  expect_drawn({"--queries", "3", "--keys", "5", "--causal-top-left"}, {"#....\n##...\n###..\n"});
  expect_drawn({"--queries", "5", "--causal", "--window", "1,-1"}, {"#....\n##...\n.##..\n..##.\n...##\n"});
  expect_drawn({"--queries", "4", "--window", "0,1"}, {"##..\n.##.\n..##\n...#\n"});
  expect_drawn({"--queries", "5", "--causal", "--chunk", "2"}, {"#....\n##...\n..#..\n..##.\n....#\n"});
  expect_drawn({"--queries", "2", "--keys", "5", "--causal", "--q-offset", "1"}, {"##...\n###..\n"});
}

TEST(Draw, Sequences) {
  expect_drawn({"--cu-seqlens", "0,2,5", "--causal"}, {"#....\n##...\n..#..\n..##.\n..###\n"});
  expect_drawn({"--cu-seqlens-q", "0,1,3", "--cu-seqlens-k", "0,3,5"}, {"###..\n...##\n...##\n"});
  expect_drawn({"--queries", "2", "--keys", "4", "--seqused-k", "3", "--leftpad-k", "1"}, {".##.\n.##.\n"});
  expect_drawn({"--queries", "2", "--seqused-q", "2,1", "--seqused-k", "1,2"},
               {"sequence 0\n#.\n#.\n", "sequence 1\n##\n"});
}

TEST(Draw, Tensors) {
  expect_drawn({"--mask", "1,0,1/0,0,0"}, {"#.#\n...\n"});
  expect_drawn({"--queries", "2", "--mask", "0,1"}, {".#\n.#\n"});
  expect_drawn({"--queries", "3", "--keys", "5", "--causal", "--tree-mask", "1/3/5"}, {"###..\n####.\n###.#\n"});
  expect_drawn({"--queries", "2", "--keys", "2", "--bias", "-inf,0/5,-1e30"}, {".#\n##\n"});
  const test::TemporaryFolder folder;
  Array mask = make_array(NpyType::boolean, {2, 2, 3});
  for (const size_t at : {0, 4, 8, 11}) mask.bytes[at] = std::byte{1};
  expect_drawn({"--mask", save(folder / "mask.npy", mask)}, {"head 0\n#..\n.#.\n", "head 1\n..#\n..#\n"});
}

/// Weights are those of the formula: exp(-0.5 distance), and a sink of 1 next to scores of 0.
TEST(Draw, Weights) {
  EXPECT_EQ(draw({"--queries", "3", "--causal", "--alibi", "0.5"}).weights, "100 | 38 62 | 19 31 51");
  EXPECT_EQ(draw({"--queries", "2", "--causal", "--sinks", "1"}).weights, "73 27 | 58 21 21");
  expect_drawn({"--queries", "2", "--causal", "--sinks", "1"}, {"s#.\ns##\n"});
  EXPECT_EQ(draw({"--keys", "2", "--queries", "1", "--bias", "0,1"}).weights, "27 73");
  EXPECT_EQ(draw({"--causal"}).weights, "");
}

/// A weight below the smallest number is no mask.
TEST(Draw, KeysOfNoWeight) {
  const Picture picture = draw({"--queries", "1", "--keys", "3", "--alibi", "300"});
  EXPECT_EQ(picture.panels, std::vector<std::string>{"###\n"});
  EXPECT_EQ(picture.weights, "0 0 100");
}

TEST(Draw, HeadsNextToEachOther) {
  const Picture picture = draw({"--queries", "2", "--alibi", "0,1"});
  EXPECT_EQ(picture.panels, (std::vector<std::string>{"head 0\n##\n##\n", "head 1\n##\n##\n"}));
  EXPECT_NE(picture.svg.find("translate(0 0)"), picture.svg.npos);
  EXPECT_NE(picture.svg.find("translate(92 0)"), picture.svg.npos);
}

TEST(Draw, LargePictures) {
  const Picture picture = draw({"--queries", "256", "--window", "0,0", "--alibi", "1"});
  std::istringstream rows(picture.panels.at(0));
  size_t place = 0;
  for (std::string row; std::getline(rows, row); ++place) {
    std::string expected(256, '.');
    expected.at(place) = '#';
    EXPECT_EQ(row, expected);
  }
  EXPECT_EQ(place, 256u);
  EXPECT_EQ(picture.weights, "");  // no room for numbers
}

TEST(Draw, EveryKernelDrawsTheSame) {
  const std::vector<std::string> options = {"--queries", "6", "--causal", "--window", "2,0", "--sinks", "0"};
  std::vector<std::string> generic = options;
  generic.insert(generic.end(), {"--kernel", "cpu.generic"});
  EXPECT_EQ(draw(options).svg, draw(generic).svg);
}

TEST(Draw, AFile) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "mask.svg";
  const Finished f = test::fa({"draw", "--causal", "--title", "a < b & c", "-o", path});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("bytes -> " + path), f.out.npos) << f.out;
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), draw({"--causal", "--title", "a < b & c"}).svg);
  EXPECT_NE(text.str().find("<title>a &lt; b &amp; c</title>"), text.str().npos);
}

void expect_refusal(std::vector<std::string> options, const std::vector<std::string> &parts) {
  options.insert(options.begin(), "draw");
  const Finished f = test::fa(options);
  EXPECT_EQ(f.code, 2) << f.err;
  EXPECT_EQ(f.out, "");
  EXPECT_TRUE(f.err.starts_with("fa draw: ")) << f.err;
  for (const std::string &part : parts) EXPECT_NE(f.err.find(part), f.err.npos) << part << "\n" << f.err;
}

TEST(DrawRefusal, Numbers) {
  expect_refusal({"--mask", "1,0/1"}, {"--mask is '1,0/1', with rows of 2 and of 1 numbers; rows of one length"});
  expect_refusal({"--mask", "1,2"}, {"--mask has 2; 0 (hidden) or 1 (attended) is expected"});
  expect_refusal({"--mask", "1,x"}, {"--mask is '1,x'; a .npy file, or numbers such as 1,2/3,4"});
  expect_refusal({"--cu-seqlens", "0,2.5"}, {"--cu-seqlens-q has 2.5; whole numbers of 32 bits are expected"});
  expect_refusal({"--seqused-k", "1,2/3,4"}, {"--seqused-k: shape (2, 2); (sequences,) is expected"});
  expect_refusal({"--cu-seqlens", "0"}, {"shape (1,); (sequences + 1,) is expected"});
  expect_refusal({"--alibi", "1,2/3,4", "--seqused-k", "3"}, {"--seqused-k has 1 numbers; 2 are expected"});
  expect_refusal({"--window", "1"}, {"--window is '1'; LEFT,RIGHT (-1: open) is expected"});
  expect_refusal({"--bias", "nan"}, {"the weights of query 0 are NaN"});
}

TEST(DrawRefusal, Sizes) {
  expect_refusal({"--cu-seqlens", "0,300"}, {"there are 300 queries; 1 .. 256 are expected"});
  expect_refusal({"--cu-seqlens", "0,3", "--keys", "3"}, {"--keys is given with --cu-seqlens"});
  expect_refusal({"--cu-seqlens", "0,-3"}, {"there are -3 queries"});
}

/// Rules of the library, in its words.
TEST(DrawRefusal, Rules) {
  expect_refusal({"--tree-mask", "1"}, {"tree_mask", "FA_MASK_NONE"});
  expect_refusal({"--mask", "1,1,1", "--keys", "4"}, {"args.mask.shape[3] is 3"});
  expect_refusal({"--seqused-k", "9"}, {"args.seqused_k[0] is 9: expected 0 .. 8"});
  expect_refusal({"--kernel", "cpu.none"}, {"cpu.none"});
}

TEST(DrawRefusal, OutputsThatAreInputs) {
  const test::TemporaryFolder folder;
  Array mask = make_array(NpyType::boolean, {2, 2});
  const std::string path = save(folder / "mask.npy", mask);
  expect_refusal({"--mask", path, "-o", path}, {path + ": is an input, which the output would replace"});
}

}  // namespace
