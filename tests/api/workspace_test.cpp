// fa_forward_workspace_size at random and extreme shapes: it follows from shapes, bounds and num_splits alone, never
// falls when one of them rises, and is refused where it does not fit.
#include <optional>
#include <string_view>

#include "call.h"
#include "reference/random.h"

namespace api_test {
namespace {

/// The parameters of the size. Lengths of k are those of a cache whose rows kv_batch_idx chooses, so that no tensor has
/// more elements than is legal.
struct Shape {
  int64_t b = 1, sq = 1, sk = 1, hq = 1, hkv = 1;
  int64_t max_q = 0, max_k = 0;
  int32_t splits = 0;
  bool cu_q = false, cu_k = false, cache = false, used = false;  // used: sequences may be shorter than sq and sk
};

std::string to_text(const Shape &s) {
  std::string text;
  for (const auto &[name, value] : {std::pair{"b", s.b},
                                    {"sq", s.sq},
                                    {"sk", s.sk},
                                    {"hq", s.hq},
                                    {"hkv", s.hkv},
                                    {"max_q", s.max_q},
                                    {"max_k", s.max_k},
                                    {"splits", int64_t{s.splits}},
                                    {"cu_q", int64_t{s.cu_q}},
                                    {"cu_k", int64_t{s.cu_k}},
                                    {"cache", int64_t{s.cache}},
                                    {"used", int64_t{s.used}}})
    text += std::string(name) + "=" + std::to_string(value) + " ";
  return text;
}

/// Reorders a tensor's dimensions in memory, spreads them, and turns them round.
void restride(fa_tensor *t, reference::Random *random) {
  int order[4] = {0, 1, 2, 3};
  for (int i = 3; i > 0; --i) std::swap(order[i], order[random->between(0, i)]);
  int64_t step = random->one_of(1, 1, 2, 3);
  for (const int i : order) {
    t->stride[i] = random->chance(20) ? -step : step;
    if (__builtin_mul_overflow(step, std::max<int64_t>(t->shape[i], 1), &step)) step = 1;
    if (random->chance(30)) step += step < 1000 ? random->between(0, 8) : 0;
  }
}

/// The sizes of ops of one description, for one kernel of the CPU.
class Sizes {
 public:
  Sizes(const char *kernel, fa_dtype dtype, int64_t dim, int64_t dim_v, uint32_t flags, int32_t threads)
      : dtype_(dtype), dim_(dim), dim_v_(dim_v), invariant_(flags != 0) {
    const Variable forced("FA_FORCE_KERNEL", kernel);
    fa_desc desc;
    fa_desc_init(&desc, sizeof desc);
    desc.dtype_q = dtype;
    desc.head_dim = dim;
    desc.head_dim_v = dim_v;
    desc.flags = flags;
    desc.num_threads = threads;
    EXPECT_EQ(fa_create(&desc, &op_), FA_OK) << fa_last_error();
  }
  ~Sizes() { fa_destroy(op_); }
  Sizes(const Sizes &) = delete;
  Sizes &operator=(const Sizes &) = delete;

  static constexpr size_t does_not_fit = SIZE_MAX;

  /// The bytes, does_not_fit, or nothing where the call is not legal: a tensor is too large. With other strides where
  /// there is a Random.
  std::optional<size_t> of(const Shape &s, reference::Random *strides = nullptr) const {
    fa_forward_args args;
    fa_forward_args_init(&args, sizeof args);
    const int64_t batch_q = s.cu_q ? 1 : s.b, batch_k = s.cu_k ? 1 : s.cache ? 2 : s.b;
    fa_tensor_init(&args.q, nullptr, dtype_, batch_q, s.sq, s.hq, dim_);
    fa_tensor_init(&args.k, nullptr, dtype_, batch_k, s.sk, s.hkv, dim_);
    fa_tensor_init(&args.v, nullptr, dtype_, batch_k, s.sk, s.hkv, dim_v_);
    fa_tensor_init(&args.out, nullptr, dtype_, batch_q, s.sq, s.hq, dim_v_);
    static const int32_t unread[1] = {};
    if (s.cu_q) args.cu_seqlens_q = unread;
    if (s.cu_k) args.cu_seqlens_k = unread;
    if (s.cu_q || s.cu_k) args.num_seqs = s.b;
    if (s.cache && !s.cu_k) args.kv_batch_idx = unread;
    if (s.used) args.seqused_q = args.seqused_k = unread;
    args.max_seqlen_q = s.max_q;
    args.max_seqlen_k = s.max_k;
    args.num_splits = invariant_ ? 0 : s.splits;
    if (strides)
      for (fa_tensor *t : {&args.q, &args.k, &args.v, &args.out}) restride(t, strides);
    size_t bytes = 0;
    const fa_status status = fa_forward_workspace_size(op_, &args, &bytes);
    if (status == FA_OK) return bytes;
    if (status == FA_ERROR_INVALID_ARGUMENT) return {};
    EXPECT_EQ(status, FA_ERROR_OUT_OF_MEMORY) << fa_last_error();
    EXPECT_EQ(missing_words(fa_last_error(), {"workspace", "size_t", "num_splits"}), "");
    return does_not_fit;
  }

 private:
  fa_dtype dtype_;
  int64_t dim_, dim_v_;
  bool invariant_;
  fa_op *op_ = nullptr;
};

int64_t length(reference::Random *random, bool extreme) {
  if (extreme && random->chance(40)) return random->one_of<int64_t>(INT32_MAX, INT32_MAX - 1, 1 << 30, 1 << 24);
  return random->one_of<int64_t>(1, 1, 2, 3, 8, 31, 64, 100, 127, 128, 129, 500, 1023, 1024, 1025, 2048, 5000);
}

Shape random_shape(reference::Random *random, bool extreme) {
  Shape s;
  s.b = length(random, extreme);
  s.sq = length(random, extreme);
  s.sk = length(random, extreme);
  s.hkv = extreme ? length(random, random->chance(30)) : random->between(1, 16);
  s.hq = std::min<int64_t>(s.hkv * random->one_of(1, 2, 3, 4, 8), INT32_MAX / s.hkv * s.hkv);
  s.cu_q = random->chance(25);
  s.cu_k = random->chance(25);
  s.cache = random->chance(extreme ? 70 : 25);
  s.used = random->chance(50);
  if (s.used && random->chance(50)) s.max_q = length(random, extreme);
  if (s.used && random->chance(50)) s.max_k = length(random, extreme);
  if (random->chance(50)) s.splits = random->one_of(1, 2, 3, 50, 1024);
  return s;
}

/// Raises one bound; false where this shape lacks it.
bool raise(Shape *s, int bound, reference::Random *random, bool extreme) {
  const auto to = [&](int64_t *length_to_raise) {
    const int64_t before = *length_to_raise;
    *length_to_raise = std::max(before, length(random, extreme));
    return *length_to_raise > before;
  };
  switch (bound) {
    case 0:
      return to(&s->b);
    case 1:
      return to(&s->sq);
    case 2:
      return to(&s->sk);
    case 3:
      return s->max_q != 0 && to(&s->max_q);
    case 4:
      return s->max_k != 0 && to(&s->max_k);
    case 5:
      s->splits = s->splits == 0 ? 0 : std::min(s->splits + static_cast<int32_t>(random->between(1, 99)), 1024);
      return s->splits != 0;
    case 6:  // more heads of q for each of k
      s->hq *= random->one_of(2, 3);
      return s->hq <= INT32_MAX;
    case 7: {  // as many of q, and fewer of them for each of k
      const int64_t group = s->hq / s->hkv;
      for (int64_t divisor = 2; divisor <= group; ++divisor)
        if (group % divisor == 0) return s->hkv *= divisor, true;
      return false;
    }
    default: {
      const int64_t times = random->one_of(2, 3);
      s->hkv *= times;
      s->hq *= times;
      return s->hq <= INT32_MAX;
    }
  }
}
constexpr int bounds = 9;

class WorkspaceSize : public testing::TestWithParam<const char *> {
 protected:
  /// Calls check(sizes, random, extreme) for ops of every kind.
  template <class Check>
  void each_op(Check check) {
    reference::Random random(7);
    for (const auto &[dim, dim_v] : {std::pair{64, 64}, {128, 128}, {576, 512}, {7, 1}, {1, 33}})
      for (const uint32_t flags : {0u, uint32_t{FA_FLAG_BATCH_INVARIANT}})
        for (const int32_t threads : {1, 3, 64})
          for (const bool extreme : {false, true})
            check(Sizes(GetParam(), dtype(), dim, dim_v, flags, threads), &random, extreme);
  }

  fa_dtype dtype() const {
    const std::string_view name = GetParam();
    return name.ends_with("_bf16") ? FA_BF16 : name.ends_with("_bf16x2") ? FA_F16 : FA_F32;
  }
};

// [F126]
TEST_P(WorkspaceSize, DoesNotFollowFromStrides) {
  int64_t compared = 0;
  each_op([&](const Sizes &sizes, reference::Random *random, bool extreme) {
    for (int i = 0; i < 60; ++i) {
      const Shape shape = random_shape(random, extreme);
      const std::optional<size_t> plain = sizes.of(shape);
      for (int j = 0; plain && j < 4; ++j) {
        const std::optional<size_t> other = sizes.of(shape, random);
        if (!other) continue;  // more bytes apart than 2^63
        ++compared;
        ASSERT_EQ(*other, *plain) << to_text(shape);
      }
    }
  });
  EXPECT_GT(compared, 3000);
}

// [F128]
TEST_P(WorkspaceSize, NeverFallsWhenABoundRises) {
  int64_t compared[bounds] = {}, refused = 0;
  each_op([&](const Sizes &sizes, reference::Random *random, bool extreme) {
    for (int i = 0; i < 100; ++i) {
      Shape shape = random_shape(random, extreme);
      std::optional<size_t> before = sizes.of(shape);
      for (int step = 0; before && step < 6; ++step) {
        const int bound = static_cast<int>(random->between(0, bounds - 1));
        Shape larger = shape;
        if (!raise(&larger, bound, random, extreme)) continue;
        const std::optional<size_t> bytes = sizes.of(larger);
        if (!bytes) continue;
        ++compared[bound];
        refused += *bytes == Sizes::does_not_fit;
        ASSERT_GE(*bytes, *before) << to_text(shape) << "\nthen " << to_text(larger);
        shape = larger;
        before = bytes;
      }
    }
  });
  for (int bound = 0; bound < bounds; ++bound) EXPECT_GT(compared[bound], 50) << "of bound " << bound;
  EXPECT_GT(refused, 10) << "no size was too large";
}

std::vector<const char *> cpu_kernels() {
  std::vector<const char *> names;
  for (int32_t i = 0; i < fa_kernel_count(); ++i) {
    fa_kernel info = {};
    info.struct_size = sizeof info;
    if (fa_kernel_info(i, &info) == FA_OK && info.available && std::strcmp(info.device, "cpu") == 0)
      names.push_back(info.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Kernels, WorkspaceSize, testing::ValuesIn(cpu_kernels()), [](const auto &test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

/// A call of legal extents that would need 2^69 bytes. No memory is looked at.
// [F129]
TEST(WorkspaceLimit, AForwardThatNeedsTooMuchIsRefused) {
  Call call;
  call.desc.head_dim = 1;
  fa_op *op = call.create();
  const int64_t heads = 1 << 17, rows = INT32_MAX;
  const auto somewhere = [](uintptr_t i) { return reinterpret_cast<void *>(i << 52); };
  fa_tensor_init(&call.args.q, somewhere(1), FA_F32, rows, 1, heads, 1);
  fa_tensor_init(&call.args.out, somewhere(2), FA_F32, rows, 1, heads, 1);
  fa_tensor_init(&call.args.k, somewhere(3), FA_F32, 1, rows, heads, 1);
  fa_tensor_init(&call.args.v, somewhere(4), FA_F32, 1, rows, heads, 1);
  call.args.kv_batch_idx = static_cast<const int32_t *>(somewhere(5));
  call.args.workspace = call.workspace;
  call.args.workspace_size = sizeof call.workspace;
  size_t bytes = 1;
  EXPECT_EQ(fa_forward_workspace_size(op, &call.args, &bytes), FA_ERROR_OUT_OF_MEMORY) << fa_last_error();
  EXPECT_EQ(fa_forward(op, &call.args), FA_ERROR_OUT_OF_MEMORY) << fa_last_error();
  EXPECT_EQ(missing_words(fa_last_error(), {"workspace", "size_t", "max_seqlen_k"}), "");
  fa_destroy(op);
}

}  // namespace
}  // namespace api_test
