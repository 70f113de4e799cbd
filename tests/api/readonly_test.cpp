// Inputs may be in memory that the process cannot write: a file that is mapped, a constant.
#include <sys/mman.h>

#include <cstdlib>
#include <initializer_list>

#include "backward_call.h"
#include "merge_call.h"

namespace api_test {
namespace {

/// Gives tensors and arrays to memory that is only readable, and their owners theirs back at the end.
class ReadOnly {
 public:
  ~ReadOnly() {
    for (const Page &page : pages_) munmap(page.data, page_bytes);
  }

  void move(std::initializer_list<fa_tensor *> tensors) {
    for (fa_tensor *tensor : tensors) {
      ASSERT_NE(tensor->data, nullptr);
      int64_t bytes = tensor->dtype == FA_F32 ? sizeof(float) : 1;
      for (const int64_t length : tensor->shape) bytes *= length;
      tensor->data = copy(tensor->data, static_cast<size_t>(bytes));
    }
  }
  void move(const int32_t **array, size_t entries) {
    *array = static_cast<const int32_t *>(copy(*array, entries * sizeof **array));
  }

 private:
  struct Page {
    void *data;
  };
  static constexpr size_t page_bytes = 1 << 16;

  void *copy(const void *from, size_t bytes) {
    void *page = mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || bytes > page_bytes) std::abort();
    pages_.push_back({page});
    std::memcpy(page, from, bytes);
    mprotect(page, page_bytes, PROT_READ);
    return page;
  }

  std::vector<Page> pages_;
};

/// The CPU's kernels that this machine runs.
std::vector<std::string> kernels() {
  std::vector<std::string> names;
  for (int32_t i = 0; i < fa_kernel_count(); i++) {
    fa_kernel kernel = {};
    kernel.struct_size = sizeof kernel;
    EXPECT_EQ(fa_kernel_info(i, &kernel), FA_OK);
    if (kernel.available && std::string(kernel.device) == "cpu" && std::string(kernel.compute_dtypes) == "f32")
      names.push_back(kernel.name);
  }
  return names;
}

// [F202]
TEST(ReadOnlyInputs, AreNeverWritten) {
  ASSERT_FALSE(kernels().empty());
  for (const std::string &name : kernels()) {
    setenv("FA_FORCE_KERNEL", name.c_str(), 1);
    ReadOnly memory;
    Call call;
    call.pack_q();
    call.pack_k();
    call.add_bias();
    call.add_mask();
    call.add_slopes();
    call.add_sinks();
    call.used_k[0] = 1;
    call.used_k[1] = 2;
    call.args.seqused_k = call.used_k;
    fa_forward_args &args = call.args;
    for (fa_tensor *heads : {&args.bias, &args.mask}) heads->shape[0] = 1;  // for both sequences
    memory.move({&args.q, &args.k, &args.v, &args.bias, &args.mask, &args.alibi_slopes, &args.sinks});
    memory.move(&args.cu_seqlens_q, 3);
    memory.move(&args.cu_seqlens_k, 3);
    memory.move(&args.seqused_k, 2);
    EXPECT_EQ(call.run(), FA_OK) << name << ": " << fa_last_error();

    BackwardCall back;
    back.add_dbias();
    back.add_dsinks();
    back.add_dlse();
    fa_backward_args &of = back.call;
    memory.move({&of.q, &of.k, &of.v, &of.out, &of.dout, &of.lse, &of.dlse, &of.bias, &of.sinks});
    EXPECT_EQ(back.run(), FA_OK) << name << ": " << fa_last_error();

    MergeCall merge;
    merge.add_lse();
    merge.add_mask();
    for (int p = 0; p < merge.parts; ++p) memory.move({&merge.outs[p], &merge.lses[p]});
    memory.move({&merge.args.mask});
    EXPECT_EQ(merge.run(), FA_OK) << name << ": " << fa_last_error();
  }
  unsetenv("FA_FORCE_KERNEL");
}

}  // namespace
}  // namespace api_test
