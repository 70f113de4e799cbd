// Tensors whose elements are further apart than 32 bits count, and more heads than a grid has rows: of their addresses
// only those that are used have memory.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "common/params.h"
#include "cuda/derive.h"
#include "cuda/fixture.h"
#include "forward/combine/tiles.h"
#include "forward/mma/tiles.h"
#include "forward/simt/tiles.h"
#include "reference/number.h"

namespace cuda_test {
namespace {

/// Addresses of the host of any number, of which the pages that are asked for exist, registered with the driver: it
/// keeps all memory that it registers resident.
class Sparse {
 public:
  explicit Sparse(size_t bytes) : bytes_(bytes) {
    void *const mapped =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(mapped, MAP_FAILED);
    data_ = static_cast<char *>(mapped);
  }
  ~Sparse() {
    for (char *const begin : registered_) call("cuMemHostUnregister", static_cast<void *>(begin));
    munmap(data_, bytes_);
  }
  Sparse(const Sparse &) = delete;
  Sparse &operator=(const Sparse &) = delete;

  /// The bytes are to exist.
  void use(size_t begin, size_t bytes) {
    for (size_t p = begin / page; p * page < begin + bytes; ++p) pages_.insert(p);
  }

  /// Registers all pages that are to exist, neighbours together.
  void pin() {
    for (auto at = pages_.begin(); at != pages_.end();) {
      const size_t first = *at;
      size_t end = first;
      while (at != pages_.end() && *at == end) ++at, ++end;
      registered_.push_back(data_ + first * page);
      EXPECT_EQ(call("cuMemHostRegister_v2", static_cast<void *>(registered_.back()), (end - first) * page, 0u),
                CUDA_SUCCESS);
    }
  }

  char *data() const { return data_; }

 private:
  static constexpr size_t page = 4096;
  char *data_ = nullptr;
  size_t bytes_;
  std::set<size_t> pages_;
  std::vector<char *> registered_;
};

/// The instance's tensor with that number of elements between entries of a dimension, in sparse memory.
std::unique_ptr<Sparse> spread(const reference::Tensor &from, fa_tensor *view, int dimension, int64_t stride) {
  *view = from.view();
  view->stride[dimension] = stride;
  const auto element = size_t(reference::dtype_bytes(view->dtype));
  size_t elements = 1;
  for (int i = 0; i < 4; ++i) elements += size_t((view->shape[i] - 1) * view->stride[i]);
  auto memory = std::make_unique<Sparse>(elements * element);
  view->data = memory->data();
  from.each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t) {
    const size_t to =
        size_t(i * view->stride[0] + j * view->stride[1] + k * view->stride[2] + l * view->stride[3]) * element;
    memory->use(to, element);
    std::memcpy(memory->data() + to, from.at(i, j, k, l), element);
  });
  memory->pin();
  return memory;
}

/// Copies an output back from where it was spread.
void gather(const fa_tensor &view, const reference::Tensor &to) {
  const int64_t element = reference::dtype_bytes(view.dtype);
  to.each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t) {
    const char *from = static_cast<const char *>(view.data) +
                       (i * view.stride[0] + j * view.stride[1] + k * view.stride[2] + l * view.stride[3]) * element;
    std::memcpy(to.at(i, j, k, l), from, size_t(element));
  });
}

class Offsets : public testing::TestWithParam<fa_dtype> {};

// [F34]
TEST_P(Offsets, BeyondThirtyTwoBitsInEachTensorAndDimension) {
  const InContext in;
  for (const int64_t stride : {(int64_t{1} << 31) + 64, (int64_t{1} << 32) + 64}) {
    for (int which = 0; which < 5; ++which) {
      for (int dimension = 0; dimension < 3; ++dimension) {
        Case c = small_case();
        c.q = GetParam(), c.sk = c.sq = 3;
        Call own(c, Where::pinned);
        fa_tensor *const views[] = {&own.args.q, &own.args.k, &own.args.v, &own.args.out, &own.args.lse};
        const reference::Tensor *const tensors[] = {&own.instance.q, &own.instance.k, &own.instance.v,
                                                    &own.instance.out, &own.instance.lse};
        const auto memory = spread(*tensors[which], views[which], dimension, stride);
        const Op op(desc_of(c));
        ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
        if (which < 3) {
          EXPECT_EQ(own.failure(), "") << which << " " << dimension;
          continue;
        }
        ASSERT_EQ(call("cuCtxSynchronize"), CUDA_SUCCESS);
        gather(*views[which], *tensors[which]);
        const fa_tensor &other = which == 3 ? own.args.lse : own.args.out;
        gather(other, which == 3 ? own.instance.lse : own.instance.out);
        EXPECT_EQ(reference::compare(own.instance, reference::Expected(own.instance)), "") << which << " " << dimension;
      }
    }
  }
}

/// More rows than a tile has, one split and no group of heads: Entry::plain and Entry::general, where a family has
/// them.
TEST_P(Offsets, BeyondThirtyTwoBitsInTilesOfManyRows) {
  const InContext in;
  for (const bool general : {false, true}) {
    for (int which = 0; which < (general ? 7 : 5); ++which) {
      for (const int dimension : {0, 1, 2}) {
        if (dimension == 1 && !general) continue;  // Entry::plain has rows less than 2^24 bytes apart
        Case c;
        c.b = c.hq = c.hkv = 2, c.sq = c.sk = 131, c.d = 16, c.q = GetParam(), c.splits = 1, c.mask = FA_MASK_CAUSAL;
        if (general) c.softcap = 3, c.bias = "f32:bhqk", c.boolmask = "bhqk";
        Call own(c, Where::pinned);
        fa_tensor *const views[] = {&own.args.q,   &own.args.k,    &own.args.v,   &own.args.out,
                                    &own.args.lse, &own.args.bias, &own.args.mask};
        const reference::Tensor *const tensors[] = {&own.instance.q,   &own.instance.k,   &own.instance.v,
                                                    &own.instance.out, &own.instance.lse, &own.instance.bias,
                                                    &own.instance.mask};
        const auto memory = spread(*tensors[which], views[which], dimension, (int64_t{1} << 32) + 64);
        const Op op(desc_of(c));
        ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
        ASSERT_EQ(call("cuCtxSynchronize"), CUDA_SUCCESS);
        for (const int output : {3, 4}) gather(*views[output], *tensors[output]);
        EXPECT_EQ(reference::compare(own.instance, reference::Expected(own.instance)), "")
            << (general ? "general " : "plain ") << which << " " << dimension;
      }
    }
  }
}

/// From row to row, and from one to a later one of a tile, on both sides of 2^32 bytes.
TEST_P(Offsets, RowsOfKeysMegabytesApart) {
  const InContext in;
  const int64_t element = GetParam() == FA_F32 ? 4 : 2;
  for (const int64_t bytes : {(1 << 24) - 64, (1 << 24) + 64, (1 << 26) + 64, (1 << 28) + 64}) {
    for (const int64_t queries : {1, 20, 131}) {
      for (const bool general : {false, true}) {
        Case c;
        c.sq = queries, c.sk = 131, c.d = 16, c.q = GetParam(), c.splits = 1;
        if (general) c.softcap = 3;
        Call own(c, Where::pinned);
        const auto keys = spread(own.instance.k, &own.args.k, 1, bytes / element);
        const auto values = spread(own.instance.v, &own.args.v, 1, bytes / element);
        const Op op(desc_of(c));
        ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
        EXPECT_EQ(own.failure(), "") << bytes << " bytes apart, " << queries << " queries";
      }
    }
  }
}

/// Pages whose rows 32 bits count in units of 16 bytes, and such whose rows they do not.
TEST_P(Offsets, BeyondThirtyTwoBitsInThePagedPool) {
  const InContext in;
  for (const int64_t far : {int64_t{1} << 31, int64_t{1} << 33}) {
    for (const int64_t queries : {3, 131}) {
      Case c = small_case();
      c.q = GetParam(), c.page = 16, c.sq = queries, c.sk = 64, c.splits = 1;
      Call own(c, Where::pinned);
      const auto keys = spread(own.instance.k, &own.args.k, 0, far + 8);
      const auto values = spread(own.instance.v, &own.args.v, 0, far / 2 + 64);
      const Op op(desc_of(c));
      ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
      EXPECT_EQ(own.failure(), "") << queries << " queries, pages " << far << " elements apart";
    }
  }
}

TEST_P(Offsets, MoreBatchesTimesHeadsThanAGridHasRows) {
  const InContext in;
  Case c;
  c.b = 4100, c.hq = 16, c.sq = c.sk = 1, c.d = 8, c.q = GetParam(), c.lse = false;
  Call own(c, Where::pinned);
  const Op op(desc_of(c));
  ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
  EXPECT_EQ(own.failure(), "");
}

/// The partial results of all heads are more than one launch may have (max_partial_bytes of cuda/forward_plan.h), so
/// there are several launches.
TEST_P(Offsets, SplitsOfManyHeadsInRounds) {
  const InContext in;
  Case c;
  c.sq = 1, c.sk = 8200, c.hq = c.hkv = 3, c.d = 8, c.dv = 576, c.splits = 1024, c.q = GetParam();
  Call own(c, Where::pinned);
  const Op op(desc_of(c));
  size_t bytes = 0;
  ASSERT_EQ(fa_forward_workspace_size(op.op, &own.args, &bytes), FA_OK) << fa_last_error();
  constexpr int64_t simt_rows = fa::kernels::simt::rows(576);  // the kernel for such a head dimension
  const size_t all = size_t(c.hq * c.splits * simt_rows * (c.dv + 2)) * sizeof(float);
  ASSERT_LT(bytes, all) << "one launch has room for all: this test proves nothing";
  ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
  EXPECT_EQ(own.failure(), "");
}

// ---- partial results

namespace kernels = fa::kernels;
using kernels::Entry;

kernels::View view_of(const fa_tensor &tensor) {
  kernels::View view = {static_cast<char *>(tensor.data), {}};
  for (int i = 0; i < 4; ++i) view.stride[i] = tensor.stride[i] * reference::dtype_bytes(tensor.dtype);
  return view;
}

/// The kernels' parameters for a case of one sequence, one head and a causal mask, in three splits.
kernels::Params params_of(const Call &own, int32_t tile_rows) {
  const Case &c = own.instance.c;
  kernels::Params p = {};
  p.q = view_of(own.args.q), p.k = view_of(own.args.k), p.v = view_of(own.args.v);
  p.out = view_of(own.args.out), p.lse = view_of(own.args.lse);
  p.schedule = {tile_rows, 1, 0, 1, 1, 3, 0, 0, 1, 3, 0};
  p.q_dtype = p.kv_dtype = p.out_dtype = c.q;
  p.batch = p.heads_q = p.heads_kv = 1;
  p.head_dim = p.head_dim_v = int32_t(c.d);
  p.rows_q = p.max_seqlen_q = int32_t(c.sq);
  p.rows_k = p.max_seqlen_k = int32_t(c.sk);
  p.causal = 1;
  p.window_left = p.window_right = -1;
  p.scale = 0.25F;  // of head dimension 16
  fa::cuda::derive(&p), fa::cuda::set_schedule(p.schedule, &p);
  return p;
}

/// An image in this build's folder.
std::string path_of(const kernels::Arch &arch, const std::string &image) {
  return std::string(TEST_KERNELS) + "/" + arch.name + "." + image + ".fatbin";
}

/// An entry point of an image, and the shape of its blocks.
CUresult run_kernel(const std::string &image, Entry entry, const kernels::TileConfig &tile, emulated::Shape grid,
                    const kernels::Params &params) {
  const CUfunction function = emulated::kernel(emulated::read_file(image), kernels::name_of(entry));
  call("cuFuncSetAttribute", function, 8, tile.shared_bytes);  // the most dynamic shared memory
  return emulated::launch(function, grid, {unsigned(tile.threads)}, unsigned(tile.shared_bytes), params);
}

/// The library bounds the memory that it takes for partial results (cuda/forward_plan.h), so that the kernels are
/// launched by themselves here: splits so far apart that their values, then their rows, then their maxima need more
/// than 32 bits.
TEST_P(Offsets, BeyondThirtyTwoBitsInPartialResults) {
  const InContext in;
  const int sm = emulated::capability();
  const auto is_own = [&](const kernels::Arch &each) { return each.number == sm && is_built(each.name); };
  const auto own_arch = std::ranges::find_if(kernels::archs, is_own);
  if (own_arch == std::ranges::end(kernels::archs)) GTEST_SKIP() << "FA_ARCHS leaves out " << sm;
  const kernels::Arch &arch = *own_arch;
  if (!std::filesystem::exists(path_of(arch, "combine.f32.576"))) GTEST_SKIP() << "there is no folder " << TEST_KERNELS;
  const bool wide = GetParam() == FA_F32;
  const kernels::TileConfig ends = kernels::combine::tile(arch, 576, Entry::combine);
  const auto expect_right = [&](Entry entry, int64_t rows) {
    const kernels::TileConfig tile = wide ? kernels::simt::tile(arch, 64, entry) : kernels::mma::tile(arch, 32, entry);
    Case c;
    c.sq = 3, c.sk = 280, c.d = 16, c.q = GetParam(), c.mask = FA_MASK_CAUSAL;
    Call own(c, Where::pinned);
    kernels::Params params = params_of(own, tile.rows);
    params.partial_rows = rows + tile.rows;
    const size_t apart = size_t(params.partial_rows) * sizeof(float);  // from split to split, a column of them
    Sparse values(3 * apart * size_t(c.d)), max_sum(3 * apart * 2);
    for (const size_t split : {0, 1, 2}) {
      values.use(split * apart * size_t(c.d), size_t(tile.rows * c.d) * sizeof(float));
      max_sum.use(split * apart * 2, size_t(tile.rows * 2) * sizeof(float));
    }
    values.pin(), max_sum.pin();
    params.o_partial = reinterpret_cast<float *>(values.data());
    params.ml_partial = reinterpret_cast<float *>(max_sum.data());
    ASSERT_EQ(run_kernel(path_of(arch, wide ? "simt.f32.64" : "mma.f16.32"), entry, tile, {3}, params), CUDA_SUCCESS);
    const auto of_rows = unsigned(kernels::combine::blocks_of_tile(tile.rows, 3));
    const auto of_columns = unsigned(kernels::combine::blocks_of_row(params.head_dim_v));
    ASSERT_EQ(run_kernel(path_of(arch, "combine.f32.576"), Entry::combine, ends, {1, of_rows, of_columns}, params),
              CUDA_SUCCESS);
    EXPECT_EQ(own.failure(), "") << kernels::name_of(entry) << " " << rows;
  };
  for (const int64_t rows : {int64_t{1} << 27, int64_t{1} << 28, int64_t{1} << 31}) {
    expect_right(Entry::split, rows);
    if (!wide) expect_right(Entry::decode, rows);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Offsets, testing::Values(FA_F32, FA_F16));

}  // namespace
}  // namespace cuda_test
