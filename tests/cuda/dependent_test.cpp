// Programmatic dependent launches: the first kernel of a call may begin while the kernel before it in the stream still
// runs, and reads nothing of what that one writes until it has ended.
#include "cuda/graph.h"

namespace cuda_test {
namespace {

/// Lets its dependents be launched, then writes a number to the places first and second.
constexpr const char *writer = R"(
.version 7.8
.target sm_90
.address_size 64
.visible .entry write(.param .u64 first, .param .u64 second, .param .u32 number) {
  .reg .u64 %to<2>;
  .reg .u32 %number;
  griddepcontrol.launch_dependents;
  ld.param.u64 %to0, [first];
  ld.param.u64 %to1, [second];
  ld.param.u32 %number, [number];
  st.global.u32 [%to0], %number;
  st.global.u32 [%to1], %number;
  ret;
}
)";

class Dependent : public testing::Test {
 protected:
  void SetUp() override {
    const InContext in;
    const Op op(desc_of(decode()));
    const std::string arch = arch_of(op);
    if (std::stoi(arch.substr(3)) < 90) GTEST_SKIP() << arch << " has no dependent launches: SM 90 and later ones have";
    if (!is_built("cuda." + arch + ".mma"))
      GTEST_SKIP() << "this build lacks cuda." << arch << ".mma, which decodes run on";
  }

  /// Of five tokens at most, whose keys are split.
  static Case decode() {
    Case c = split_case();
    c.q = FA_F16, c.b = 1, c.sq = 5, c.sk = 300, c.used_q = c.used_k = true;
    return c;
  }
};

/// The workspace of a call. If the call allocated it on the stream, its kernel would follow upon that, and on no
/// kernel.
class Workspace {
 public:
  Workspace(const Op &op, fa_forward_args *args) : memory_(std::vector<char>(size_for(op, args))) {
    args->workspace = reinterpret_cast<void *>(memory_.address);
  }

 private:
  static size_t size_for(const Op &op, fa_forward_args *args) {
    EXPECT_EQ(fa_forward_workspace_size(op.op, args, &args->workspace_size), FA_OK) << fa_last_error();
    return args->workspace_size;
  }

  emulated::Array<char> memory_;
};

/// A call, and a kernel before it that writes its numbers of queries and keys.
class LengthsWritten {
 public:
  explicit LengthsWritten(const Case &c)
      : call_(c), op_(desc_of(c)), workspace_(op_, &call_.args), write_(emulated::kernel(writer, "write")) {
    call_.args.stream = stream_.handle;
  }

  /// Both, one after the other.
  fa_status enqueue() {
    void *arguments[] = {&call_.args.seqused_q, &call_.args.seqused_k, &number_};
    EXPECT_EQ(call("cuLaunchKernel", write_, 1u, 1u, 1u, 1u, 1u, 1u, 0u, stream_.handle,
                   static_cast<void **>(arguments), static_cast<void **>(nullptr)),
              CUDA_SUCCESS);
    return fa_forward(op_.op, &call_.args);
  }

  /// Lengths of 0, until the first kernel has written those that results are expected of.
  void clear() {
    Instance &instance = call_.instance;
    instance.seqused_q[0] = instance.seqused_k[0] = 0;
    call_.update(instance.seqused_q), call_.update(instance.seqused_k);
    instance.seqused_q[0] = instance.seqused_k[0] = number_;
    instance.q.randomise(7, 1, 1), instance.k.randomise(7, 2, 1), instance.v.randomise(7, 3, 1);
    instance.clear_outputs();
    for (const reference::Tensor *tensor : {&instance.q, &instance.k, &instance.v, &instance.out, &instance.lse})
      call_.update(*tensor);
  }

  std::string failure() { return call_.failure(); }
  void *stream() const { return stream_.handle; }

 private:
  Stream stream_;
  Call call_;
  Op op_;
  Workspace workspace_;
  CUfunction write_;
  int32_t number_ = 5;
};

/// Several times, as kernels overlap in some schedules only.
void run_behind_a_writer(const Case &c, const std::string &kernel) {
  const InContext in;
  LengthsWritten lengths(c);
  for (int round = 0; round < 6; round++) {
    lengths.clear();
    Log said;
    ASSERT_EQ(lengths.enqueue(), FA_OK) << fa_last_error();
    EXPECT_NE(said.text.find(kernel), std::string::npos) << said.text;
    EXPECT_EQ(lengths.failure(), "");
  }
}

TEST_F(Dependent, LengthsOfTheKernelBefore) {
  run_behind_a_writer(decode(), ".mma fa_forward_decode, 3 splits");
}

TEST_F(Dependent, LengthsOfTheKernelBeforeAPrefill) {
  if (!is_built("cuda.sm_90a.wgmma")) GTEST_SKIP() << "this build has no cuda.sm_90a.wgmma";
  for (const int32_t splits : {1, 2}) {
    Case c = decode();
    c.sq = 70, c.d = 64, c.splits = splits;
    run_behind_a_writer(c, ".wgmma fa_forward_plain");
  }
}

TEST_F(Dependent, LengthsOfTheKernelBeforeInAGraph) {
  const InContext in;
  LengthsWritten lengths(decode());
  const Graph graph(lengths.stream(), [&] { return lengths.enqueue(); });
  ASSERT_EQ(graph.status, FA_OK) << fa_last_error();
  for (int replay = 0; replay < 2; replay++) {
    lengths.clear();
    ASSERT_EQ(graph.launch(static_cast<CUstream>(lengths.stream())), CUDA_SUCCESS);
    EXPECT_EQ(lengths.failure(), "");
  }
}

/// Layers: one attends with the results of the one before, which splits have joined.
TEST_F(Dependent, ResultsOfTheCallBefore) {
  const InContext in;
  const Stream stream;
  Case c = decode();
  c.used_q = c.used_k = false, c.dv = c.d;
  Call first(c), second(c);
  const Op op(desc_of(c));
  second.args.q = first.args.out;
  const Workspace workspace(op, &first.args);
  second.args.workspace = first.args.workspace, second.args.workspace_size = first.args.workspace_size;
  for (Call *layer : {&first, &second}) {
    layer->args.stream = stream.handle;
    ASSERT_EQ(fa_forward(op.op, &layer->args), FA_OK) << fa_last_error();
  }
  ASSERT_EQ(first.failure(), "");
  second.instance.q.each([&](int64_t b, int64_t row, int64_t head, int64_t i, int64_t) {
    second.instance.q.set(b, row, head, i, first.instance.out.get(b, row, head, i));
  });
  EXPECT_EQ(second.failure(), "");
}

}  // namespace
}  // namespace cuda_test
