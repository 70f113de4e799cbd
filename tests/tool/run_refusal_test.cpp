// Mistakes in the arguments of `fa run`: the message names the mistake, the exit code is 2, and no output appears.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "arrays.h"
#include "program.h"
#include "temporary.h"

namespace {

using fa::tool::Array;
using fa::tool::format_npy;
using fa::tool::make_array;
using fa::tool::NpyType;
using test::Finished;
using test::int32_array;
using test::random_array;
using test::save;

class RunRefusal : public testing::Test {
 protected:
  test::TemporaryFolder folder;
  std::string q = save(folder / "q.npy", random_array(NpyType::f32, {1, 4, 2, 8}, 1));
  std::string k = save(folder / "k.npy", random_array(NpyType::f32, {1, 6, 2, 8}, 2));
  std::string v = save(folder / "v.npy", random_array(NpyType::f32, {1, 6, 2, 8}, 3));

  /// The refusal has all parts in its text, and nothing is left of an output.
  void expect_refusal(const std::vector<std::string> &more, const std::vector<std::string> &parts, int code = 2) {
    std::vector<std::string> options = {
        "run", "--q", q, "--k", k, "--v", v, "-o", folder / "out.npy", "--lse-out", folder / "lse.npy"};
    options.insert(options.end(), more.begin(), more.end());
    const Finished f = test::fa(options);
    EXPECT_EQ(f.code, code) << f.err;
    EXPECT_TRUE(f.err.starts_with("fa run: ")) << f.err;
    for (const std::string &part : parts) EXPECT_NE(f.err.find(part), f.err.npos) << part << "\n" << f.err;
    for (const std::string &name : folder.names()) {
      EXPECT_TRUE(name.find("out.npy") == name.npos && name.find("lse.npy") == name.npos) << name;
    }
  }
};

TEST_F(RunRefusal, Missing) {
  q = folder / "missing.npy";
  expect_refusal({}, {"missing.npy: cannot be opened: No such file or directory"});
}

TEST_F(RunRefusal, NoEndOfNoFile) {
  q = "/dev/zero";
  expect_refusal({}, {"/dev/zero: is not a .npy file"});
}

TEST_F(RunRefusal, NothingGiven) {
  const Finished f = test::fa({"run"});
  EXPECT_EQ(f.code, 2);
  EXPECT_NE(f.err.find("--q is missing"), f.err.npos) << f.err;
  const Finished no_output = test::fa({"run", "--q", q, "--k", k, "--v", v});
  EXPECT_EQ(no_output.code, 2);
  EXPECT_NE(no_output.err.find("-o OUT.npy"), no_output.err.npos) << no_output.err;
}

TEST_F(RunRefusal, Truncated) {
  std::vector<std::byte> bytes = format_npy(random_array(NpyType::f32, {1, 4, 2, 8}, 1));
  bytes.resize(bytes.size() - 1);
  q = save(folder / "q.npy", bytes);
  expect_refusal({}, {"q.npy: truncated", "needs 256 bytes", "there are 255"});
  bytes.resize(40);
  q = save(folder / "q.npy", bytes);
  expect_refusal({}, {"q.npy: truncated: 40 bytes"});
  q = save(folder / "q.npy", std::string());
  expect_refusal({}, {"q.npy: is empty"});
}

TEST_F(RunRefusal, NoNpy) {
  k = save(folder / "k.npy", std::string("these are no numbers"));
  expect_refusal({}, {"k.npy: is not a .npy file"});
}

TEST_F(RunRefusal, WrongType) {
  v = save(folder / "v.npy", make_array(NpyType::i32, {1, 6, 2, 8}));
  expect_refusal({}, {"v.npy: holds int32 (1, 6, 2, 8)", "float32, float16 or bfloat16"});
  v = save(folder / "v.npy", random_array(NpyType::f32, {1, 6, 2, 8}, 3));
  expect_refusal({"--mask", q}, {"q.npy: holds float32", "bool is expected", "--bias"});
  expect_refusal({"--seqused-k", q}, {"q.npy: holds float32", "int32"});
  const std::string large = save(folder / "large.npy", [] {
    Array array = make_array(NpyType::i64, {1});
    array.data<int64_t>()[0] = int64_t{1} << 40;
    return array;
  }());
  expect_refusal({"--seqused-k", large}, {"large.npy: element 0 is 1099511627776", "32 bits"});
}

TEST_F(RunRefusal, KeysAndValuesOfOtherShapes) {
  v = save(folder / "v.npy", random_array(NpyType::f32, {1, 5, 2, 8}, 3));
  expect_refusal({}, {"v.npy: shape (1, 5, 2, 8)", "expected, but for the last dimension", "k.npy, (1, 6, 2, 8)"});
}

TEST_F(RunRefusal, NoScale) {
  expect_refusal({"--scale", "0"}, {"--scale is 0", "1 / sqrt(dim)"});
  expect_refusal({"--scale", "-0.0"}, {"--scale is 0"});
}

/// An input survives, whatever name the output has for it.
TEST_F(RunRefusal, OutputsThatAreInputs) {
  const std::string same = folder / "same.npy";
  std::filesystem::create_symlink(q, same);
  for (const std::string &path : {q, same, (folder / "") + "./k.npy"}) {
    const Finished f = test::fa({"run", "--q", q, "--k", k, "--v", v, "-o", path});
    EXPECT_EQ(f.code, 2) << path;
    EXPECT_NE(f.err.find(path + ": is an input, which the output would replace"), f.err.npos) << f.err;
  }
  const Finished f = test::fa({"run", "--q", q, "--k", k, "--v", v, "--dout", q, "--dv", v});
  EXPECT_NE(f.err.find("v.npy: is an input"), f.err.npos) << f.err;
}

/// Where both streams are one, as in a log, the error is the last line.
TEST_F(RunRefusal, TheErrorComesLast) {
  const std::string log = folder / "log";
  const std::string command = std::string(TEST_FA) + " run --q " + q + " --k " + k + " --v " + v + " --reference " + q +
                              " --max-error 0 > " + log + " 2>&1";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1);
  std::ifstream file(log);
  std::string line, last;
  while (std::getline(file, line)) last = line;
  EXPECT_TRUE(last.starts_with("fa run: the largest difference")) << last;
}

TEST_F(RunRefusal, WrongShape) {
  q = save(folder / "q.npy", random_array(NpyType::f32, {4, 8}, 1));
  expect_refusal({}, {"q.npy: shape (4, 8) has 2 dimensions", "(batch, sequence, heads, dim)", "(total, heads, dim)"});
  q = save(folder / "q.npy", random_array(NpyType::f32, {4, 2, 8}, 1));
  expect_refusal({}, {"q.npy: shape (4, 2, 8) has 3 dimensions", "--cu-seqlens-q"});
  q = save(folder / "q.npy", random_array(NpyType::f32, {1, 4, 2, 16}, 1));
  expect_refusal({}, {"k.npy: head dimension 8; expected 16, as", "q.npy has"});
  q = save(folder / "q.npy", random_array(NpyType::f32, {1, 4, 3, 8}, 1));
  expect_refusal({}, {"k.npy: 2 heads; expected a divisor of the 3 heads of", "q.npy"});
  q = save(folder / "q.npy", random_array(NpyType::f32, {1, 4, 2, 8}, 1));
  expect_refusal({"--bias", save(folder / "b.npy", random_array(NpyType::f32, {1, 1, 1, 4, 6}, 1))},
                 {"b.npy", "at most 4"});
  expect_refusal({"--bias", save(folder / "b.npy", random_array(NpyType::f32, {4, 5}, 1))}, {"args.bias"});
  expect_refusal({"--sinks", save(folder / "s.npy", random_array(NpyType::f32, {1, 1, 2}, 1))},
                 {"s.npy", "a number for each head"});
  expect_refusal({"--seqused-k", save(folder / "n.npy", int32_array({1, 2}))},
                 {"n.npy: shape (2,)", "--seqused-k", "(1,)"});
  expect_refusal({"--cu-seqlens-q", save(folder / "n.npy", int32_array({0, 4}, {1, 2}))},
                 {"n.npy: shape (1, 2)", "sequences + 1"});
  expect_refusal({"--block-table", save(folder / "n.npy", int32_array({0, 1}))},
                 {"n.npy: shape (2,)", "(sequences, pages)"});
  expect_refusal({"--cu-seqlens-q", save(folder / "n.npy", int32_array({0, 4})), "--cu-seqlens-k",
                  save(folder / "m.npy", int32_array({0, 3, 6}))},
                 {"m.npy: shape (3,)", "there are 1 sequences"});
  expect_refusal({"--reference", k}, {"k.npy: shape (1, 6, 2, 8); the output has shape (1, 4, 2, 8)"});
}

TEST_F(RunRefusal, WrongContents) {
  expect_refusal({"--seqused-k", save(folder / "n.npy", int32_array({7}))}, {"seqused_k", "7"});
  expect_refusal({"--cu-seqlens-q", save(folder / "n.npy", int32_array({0, 5}))}, {"cu_seqlens_q", "5"});
}

TEST_F(RunRefusal, WrongNumbers) {
  expect_refusal({"--window", "3"}, {"--window is '3'", "LEFT,RIGHT"});
  expect_refusal({"--window", "3,4,5"}, {"LEFT,RIGHT"});
  expect_refusal({"--window", "3,x"}, {"LEFT,RIGHT"});
  expect_refusal({"--softcap", "-1"}, {"softcap"});
  expect_refusal({"--scale", "inf"}, {"scale"});
  expect_refusal({"--threads", "99999"}, {"threads"});
  expect_refusal({"--chunk", "-4"}, {"chunk"});
  expect_refusal({"--num-splits", "-4"}, {"num_splits"});
  expect_refusal({"--max-error", "1"}, {"--reference"});
}

TEST_F(RunRefusal, CombinationsThatTheLibraryRefuses) {
  expect_refusal({"--num-splits", "2", "--batch-invariant"}, {"num_splits", "BATCH_INVARIANT"});
  expect_refusal({"--bias-before-softcap"}, {"SOFTCAP", "softcap"});
  expect_refusal({"--batch-invariant", "--nondeterministic"}, {"NONDETERMINISTIC"});
  const std::string table = save(folder / "t.npy", int32_array({0}, {1, 1})),
                    one = save(folder / "i.npy", int32_array({0}));
  expect_refusal({"--block-table", table, "--kv-batch-idx", one}, {"block_table", "kv_batch_idx"});
}

TEST_F(RunRefusal, KernelsAndDevices) {
  expect_refusal({"--kernel", "cpu.abacus"}, {"no kernel is named 'cpu.abacus'", "cpu.generic"});
  expect_refusal({"--device", "cuda"}, {"CUDA"}, 1);
}

TEST_F(RunRefusal, PlacesThatCannotBeWritten) {
  const Finished f = test::fa({"run", "--q", q, "--k", k, "--v", v, "-o", folder / "no/such/folder/out.npy"});
  EXPECT_EQ(f.code, 2);
  EXPECT_NE(f.err.find("no/such/folder/out.npy: cannot be written"), f.err.npos) << f.err;
  const Finished full = test::fa({"run", "--q", q, "--k", k, "--v", v, "-o", "/dev/full"});
  EXPECT_EQ(full.code, 1);
  EXPECT_NE(full.err.find("/dev/full: cannot be written: No space left on device"), full.err.npos) << full.err;
}

TEST_F(RunRefusal, Cases) {
  for (const auto &[line, part] :
       std::vector<std::pair<std::string, std::string>>{{"nonsense", "nonsense"},
                                                        {"b=x", "b=x"},
                                                        {"b=-1", "-1 is not a size"},
                                                        {"hq=3 hkv=2", "hkv=2 does not divide hq=3"},
                                                        {"sq=999999999999", "not a size"}}) {
    const Finished f = test::fa({"run", "--case", line});
    EXPECT_EQ(f.code, 2) << line;
    EXPECT_NE(f.err.find(part), f.err.npos) << f.err;
  }
  const Finished both = test::fa({"run", "--case", "b=1", "--q", q});
  EXPECT_EQ(both.code, 2);
}

TEST_F(RunRefusal, Gradients) {
  const std::string dq = folder / "dq.npy", db = folder / "db.npy";
  expect_refusal({"--dq", dq}, {"--dq needs --dout FILE"});
  expect_refusal({"--reference", "dv=" + v}, {"--reference dv=FILE needs --dout FILE"});
  expect_refusal({"--dlse", q}, {"--dlse needs --dout FILE"});
  expect_refusal({"--dout", q}, {"where the gradients go", "--dv FILE", "--reference dq=FILE"});
  expect_refusal({"--dout", k, "--dq", dq}, {"k.npy: shape (1, 6, 2, 8)", "--dout", "(1, 4, 2, 8)"});
  expect_refusal({"--dout", q, "--dq", dq, "--dlse", q}, {"q.npy: shape (1, 4, 2, 8)", "--dlse", "(1, 2, 4)"});
  expect_refusal({"--dout", q, "--dq", dq, "--dk", dq}, {"the same file", "dq.npy"});
  expect_refusal({"--dout", q, "--dbias", db}, {"--dbias needs --bias FILE"});
  expect_refusal({"--dout", q, "--reference", "dsinks=" + q}, {"--reference dsinks=FILE needs --sinks FILE"});
  expect_refusal({"--dout", q, "--reference", "dq=" + k}, {"k.npy: shape (1, 6, 2, 8); dq has shape (1, 4, 2, 8)"});
  expect_refusal({"--dout", q, "--reference", "dk=" + k, "--dq", k}, {"k.npy: is an input"});
  expect_refusal({"--dout", q, "--reference", "dq=" + q, "--accumulate"},
                 {"--accumulate needs the file of a gradient"});
  expect_refusal({"--reference", q, "--reference", q}, {"--reference is given twice for the output"});
  expect_refusal({"--dout", q, "--reference", "dq=" + q, "--reference", "dq=" + q}, {"given twice for dq"});
  expect_refusal({"--dout", q, "--reference", "dq="}, {"--reference is 'dq='; FILE or dq=FILE is expected"});
  expect_refusal({"--dout", q, "--dq", dq, "--accumulate"}, {"dq.npy: cannot be opened"});
  save(db, random_array(NpyType::f16, {1, 4, 2, 8}, 1));
  expect_refusal({"--dout", q, "--dq", db, "--accumulate"},
                 {"db.npy: holds float16 (1, 4, 2, 8); --accumulate adds dq to an array of float32 (1, 4, 2, 8)"});
  for (const std::string &name : folder.names()) EXPECT_EQ(name.find("dq.npy"), name.npos) << name;
}

}  // namespace
