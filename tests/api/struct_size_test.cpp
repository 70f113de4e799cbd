// The struct_size protocol: structures shorter and longer than this release's, and not one byte beyond them.
#include <cstddef>
#include <cstdlib>
#include <memory>

#include "call.h"

namespace api_test {
namespace {

/// size bytes on the heap, where AddressSanitizer sees a byte too far, with canaries behind them for other builds.
template <class T>
class Sized {
 public:
  explicit Sized(size_t size) : size_(size), bytes_(new char[size + canaries]) {
    std::memset(bytes_.get(), 0x5a, size + canaries);
  }
  T *get() { return reinterpret_cast<T *>(bytes_.get()); }
  const char *bytes() const { return bytes_.get(); }
  bool intact() const {
    for (size_t i = size_; i < size_ + canaries; ++i) {
      if (bytes_[i] != 0x5a) return false;
    }
    return true;
  }

 private:
  static constexpr size_t canaries = 64;
  size_t size_;
  std::unique_ptr<char[]> bytes_;
};

// [F114] [F115]
TEST(StructSize, InitialisersWriteNothingBeyondIt) {
  for (size_t size = 0; size <= sizeof(fa_forward_args) + 64; ++size) {
    Sized<fa_desc> desc(size);
    Sized<fa_forward_args> args(size);
    fa_desc_init(desc.get(), size);
    fa_forward_args_init(args.get(), size);
    ASSERT_TRUE(desc.intact()) << size;
    ASSERT_TRUE(args.intact()) << size;
    if (size < sizeof(size_t)) continue;
    ASSERT_EQ(desc.get()->struct_size, size);
    ASSERT_EQ(args.get()->struct_size, size);
    for (size_t i = sizeof(size_t); i < size; ++i) {
      const bool window = i >= offsetof(fa_desc, window_left) && i < offsetof(fa_desc, attention_chunk);
      ASSERT_EQ(desc.bytes()[i], window ? -1 : 0) << "byte " << i << " of " << size;
      ASSERT_EQ(args.bytes()[i], 0) << "byte " << i << " of " << size;
    }
  }
}

// [F147]
TEST(StructSize, KernelInfoWritesNothingBeyondIt) {
  for (size_t size = 16; size <= sizeof(fa_kernel) + 64; size += 8) {
    Sized<fa_kernel> info(size);
    info.get()->struct_size = size;
    ASSERT_EQ(fa_kernel_info(0, info.get()), FA_OK) << fa_last_error();
    ASSERT_TRUE(info.intact()) << size;
    ASSERT_EQ(info.get()->struct_size, size);
    ASSERT_STRNE(info.get()->name, "");
    for (size_t i = sizeof(fa_kernel); i < size; ++i) ASSERT_EQ(info.bytes()[i], 0) << i;
  }
}

TEST(StructSize, KernelInfoRefusesWhatIsNoSize) {
  fa_kernel info;
  for (const size_t size : {size_t{0}, size_t{8}, sizeof info + 1, SIZE_MAX}) {
    info.struct_size = size;
    EXPECT_EQ(fa_kernel_info(0, &info), FA_ERROR_INVALID_ARGUMENT) << size;
    EXPECT_EQ(missing_words(fa_last_error(), {"fa_kernel.struct_size is " + std::to_string(size), "sizeof(fa_kernel)"}),
              "");
  }
}

// [F64]
TEST(StructSize, ShortenedStructuresRun) {
  Call call;
  for (size_t desc_size = offsetof(fa_desc, head_dim_v); desc_size <= sizeof(fa_desc); desc_size += 8) {
    // Fields beyond a shorter structure must not be looked at: the memory behind it holds nonsense.
    Sized<fa_desc> desc(sizeof(fa_desc));
    std::memcpy(desc.get(), &call.desc, desc_size);
    desc.get()->struct_size = desc_size;
    fa_op *op = nullptr;
    ASSERT_EQ(fa_create(desc.get(), &op), FA_OK) << desc_size << ": " << fa_last_error();
    fa_destroy(op);
  }
  fa_op *op = call.create();
  for (size_t args_size = offsetof(fa_forward_args, lse); args_size <= sizeof(fa_forward_args); args_size += 8) {
    const bool within_tensors = args_size < offsetof(fa_forward_args, cu_seqlens_q);
    if (within_tensors && (args_size - offsetof(fa_forward_args, lse)) % sizeof(fa_tensor) != 0) continue;
    Sized<fa_forward_args> args(sizeof(fa_forward_args));
    std::memcpy(args.get(), &call.args, args_size);
    args.get()->struct_size = args_size;
    ASSERT_EQ(fa_forward(op, args.get()), FA_OK) << args_size << ": " << fa_last_error();
  }
  fa_destroy(op);
}

// [F65]
TEST(StructSize, LengthenedStructuresRunWhenTheTailIsZero) {
  Call call;
  fa_op *op = nullptr;
  for (const size_t more : {8, 64, 1024}) {
    const size_t desc_size = sizeof(fa_desc) + more, args_size = sizeof(fa_forward_args) + more;
    Sized<fa_desc> desc(desc_size);
    fa_desc_init(desc.get(), desc_size);
    desc.get()->dtype_q = FA_F32;
    desc.get()->head_dim = Call::d;
    ASSERT_EQ(fa_create(desc.get(), &op), FA_OK) << fa_last_error();

    Sized<fa_forward_args> args(args_size);
    fa_forward_args_init(args.get(), args_size);
    args.get()->q = call.args.q;
    args.get()->k = call.args.k;
    args.get()->v = call.args.v;
    args.get()->out = call.args.out;
    ASSERT_EQ(fa_forward(op, args.get()), FA_OK) << fa_last_error();

    for (const size_t byte : {sizeof(fa_forward_args), args_size - 1}) {
      char &tail = reinterpret_cast<char *>(args.get())[byte];
      tail = 1;
      EXPECT_EQ(fa_forward(op, args.get()), FA_ERROR_INVALID_ARGUMENT);
      EXPECT_EQ(missing_words(fa_last_error(), {"fa_forward_args.struct_size is " + std::to_string(args_size),
                                                "byte " + std::to_string(byte), "newer libfa"}),
                "");
      tail = 0;
    }
    fa_destroy(op);

    reinterpret_cast<char *>(desc.get())[desc_size - 1] = 1;
    EXPECT_EQ(fa_create(desc.get(), &op), FA_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(missing_words(fa_last_error(), {"fa_desc.struct_size is", "newer libfa"}), "");
  }
}

}  // namespace
}  // namespace api_test
