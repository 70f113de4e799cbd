// Fills tensors with numbers, creates the op and counts the work of a case.
#include "workload.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "append.h"
#include "core/dtype.h"

namespace fa::bench {
namespace {

/// Small pseudo-random numbers in about [-1, 1], written as bit patterns so that no conversion is needed for f16.
void fill(void *data, int64_t count, fa_dtype dtype) {
  uint32_t state = 12345;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    const uint32_t sign = state >> 31, mantissa = state >> 8 & 0x3ff, below = state >> 18 & 3;
    switch (static_cast<Dtype>(dtype)) {
      case FA_F32:
        static_cast<float *>(data)[i] = static_cast<float>(static_cast<int32_t>(state)) * 4.6566129e-10f;
        break;
      case FA_F16:
        static_cast<uint16_t *>(data)[i] = static_cast<uint16_t>(sign << 15 | (14 - below) << 10 | mantissa);
        break;
      case FA_BF16:
        static_cast<uint16_t *>(data)[i] = static_cast<uint16_t>(sign << 15 | (126 - below) << 7 | mantissa >> 3);
        break;
      case FA_BOOL:
      case FA_I32:
      case FA_I64:
      case FA_DTYPE_DEFAULT:
      case FA_I8:
      case FA_E4M3:
      case FA_E5M2:
      case FA_I4:
      case FA_U4:
      case FA_Q8_0:
      case FA_Q4_0:
        break;  // no figure has them, or they are filled by the byte
    }
  }
}

/// Codes: bytes that are no NaN of any format, and scales of 2^-6 for blocks.
void fill_codes(void *data, int64_t bytes, fa_dtype dtype) {
  uint32_t state = 12345;
  auto *to = static_cast<uint8_t *>(data);
  for (int64_t i = 0; i < bytes; ++i) {
    state = state * 1664525u + 1013904223u;
    to[i] = static_cast<uint8_t>(state >> 24 & 0xbb);
  }
  constexpr uint16_t scale = 0x2400;
  const int64_t block = unit_of(dtype).bytes;
  for (int64_t i = 0; code_kind(dtype) == CodeKind::block && i < bytes; i += block)
    std::memcpy(to + i, &scale, sizeof scale);
}

/// Fills memory with copies of its first bytes.
void repeat(void *data, size_t first, size_t bytes) {
  auto *to = static_cast<char *>(data);
  for (size_t at = first; at < bytes; at += first) std::memcpy(to + at, to, std::min(first, bytes - at));
}

/// (query, key) pairs that are attended.
double attended_pairs(const Case &c) {
  const bool causal = c.mask != FA_MASK_NONE;
  if (c.window_left < 0 && c.window_right < 0) {
    return static_cast<double>(c.rows_q) * static_cast<double>(c.rows_k) * (causal ? 0.5 : 1.0);
  }
  double pairs = 0;
  for (int64_t i = 0; i < c.rows_q; ++i) {
    const int64_t position = i + c.rows_k - c.rows_q;
    int64_t first = 0, last = c.rows_k - 1;
    if (c.window_left >= 0) first = std::max(first, position - c.window_left);
    if (c.window_right >= 0) last = std::min(last, position + c.window_right);
    if (causal) last = std::min(last, position);
    pairs += static_cast<double>(std::max<int64_t>(0, last - first + 1));
  }
  return pairs;
}

}  // namespace

std::string kernel_of(const std::string &arch) {
  for (int32_t i = 0; i < fa_kernel_count(); ++i) {
    fa_kernel kernel;
    kernel.struct_size = sizeof kernel;
    if (fa_kernel_info(i, &kernel) == FA_OK && kernel.available && arch == kernel.arch) return kernel.name;
  }
  return "";
}

Workload::Workload(const Case &wanted) : Subject(wanted) {
  if (case_.rows_k == 0) case_.rows_k = case_.rows_q;
  flops_ = (case_.backward ? 10.0 : 4.0) * static_cast<double>(case_.head_dim * case_.heads_q) * attended_pairs(case_);
  create_op();
  if (op_ != nullptr) create_tensors();
  if (op_ != nullptr && case_.backward) create_backward();
}

Subject::~Subject() {
  fa_destroy(op_);
}

void Subject::create_op() {
  std::string forced;
  if (!case_.arch.empty()) {
    forced = kernel_of(case_.arch);
    if (forced.empty()) {
      error_ = "no kernel for " + case_.arch + " can run here";
      return;
    }
    setenv("FA_FORCE_KERNEL", forced.c_str(), 1);
  }
  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.device = FA_DEVICE_CPU;
  desc.dtype_q = case_.dtype;
  desc.dtype_kv = case_.kv_dtype;
  desc.head_dim = case_.head_dim;
  desc.mask = case_.mask;
  desc.window_left = case_.window_left;
  desc.window_right = case_.window_right;
  desc.softcap = case_.softcap;
  desc.num_threads = case_.threads;
  if (fa_create(&desc, &op_) != FA_OK) error_ = fa_last_error();
  if (!forced.empty()) unsetenv("FA_FORCE_KERNEL");
}

void *Subject::allocate(size_t bytes) {
  buffers_.emplace_back(bytes);
  return buffers_.back().data();
}

fa_tensor Subject::tensor(int64_t rows, int64_t heads, Layout layout, fa_dtype dtype) {
  const int64_t row = row_bytes(dtype, case_.head_dim), bytes = rows * heads * row;
  const int64_t different = std::min<int64_t>(rows * heads, 4093);  // a prime: heads differ
  void *data = allocate(static_cast<size_t>(bytes));
  is_quantised(dtype) ? fill_codes(data, different * row, dtype) : fill(data, different * case_.head_dim, dtype);
  repeat(data, static_cast<size_t>(different * row), static_cast<size_t>(bytes));
  fa_tensor result;
  fa_tensor_init(&result, data, dtype, 1, rows, heads, case_.head_dim);
  if (layout == Layout::bhsd) {
    result.stride[1] = case_.head_dim;
    result.stride[2] = rows * case_.head_dim;
  }
  return result;
}

fa_tensor Subject::factors(int64_t rows, int64_t heads, float value) {
  auto *values = static_cast<float *>(allocate(sizeof(float) * static_cast<size_t>(rows * heads)));
  std::fill_n(values, rows * heads, value);
  fa_tensor result;
  fa_tensor_init(&result, values, FA_F32, 1, rows, heads, 1);
  if (case_.layout == Layout::bhsd) result.stride[1] = 1, result.stride[2] = rows;
  return result;
}

double Subject::time(Clock clock) {
  use_next();
  const double start = now(clock);
  const bool done = call();
  const double seconds = now(clock) - start;
  return done ? seconds : -1;
}

std::unique_ptr<Subject> make_subject(const Case &wanted) {
  if (wanted.append) return std::make_unique<AppendWorkload>(wanted);
  return std::make_unique<Workload>(wanted);
}

void Workload::create_tensors() {
  fa_forward_args_init(&args_, sizeof args_);
  args_.q = tensor(case_.rows_q, case_.heads_q, case_.layout, case_.dtype);
  args_.out = tensor(case_.rows_q, case_.heads_q, case_.layout, case_.dtype);
  const auto set_bytes = static_cast<size_t>(moved_bytes());
  // An odd number of sets: when calls and plain reads alternate, both come by every set.
  const size_t sets = case_.cold ? (cold_bytes() / set_bytes) | 1 : 1;
  for (size_t set = 0; set < sets; ++set) {
    args_.k = tensor(case_.rows_k, case_.heads_kv, case_.layout, kv_dtype());
    args_.v = tensor(case_.rows_k, case_.heads_kv, case_.layout, kv_dtype());
    k_sets_.push_back({args_.k.data, set_bytes / 2});
    v_sets_.push_back({args_.v.data, set_bytes / 2});
  }
  create_scales();
  for (size_t set = 0; case_.cold && set < sets; ++set) time_plain();  // the first pass over new memory is slower
  const auto floats = [this](int64_t count) { return static_cast<float *>(allocate(sizeof(float) * count)); };
  if (case_.alibi) {
    float *slopes = floats(case_.heads_q);
    for (int64_t h = 0; h < case_.heads_q; ++h) {
      slopes[h] = std::exp2(-8.0f * static_cast<float>(h + 1) / static_cast<float>(case_.heads_q));
    }
    fa_tensor_init(&args_.alibi_slopes, slopes, FA_F32, 1, case_.heads_q, 1, 1);
  }
  if (case_.sinks) {
    float *sinks = floats(case_.heads_q);
    fill(sinks, case_.heads_q, FA_F32);
    fa_tensor_init(&args_.sinks, sinks, FA_F32, 1, case_.heads_q, 1, 1);
  }
  if (case_.bias) {
    float *bias = floats(case_.rows_q * case_.rows_k);
    fill(bias, case_.rows_q * case_.rows_k, FA_F32);
    fa_tensor_init(&args_.bias, bias, FA_F32, 1, 1, case_.rows_q, case_.rows_k);
  }
  if (case_.own_workspace) {
    size_t bytes = 0;
    if (fa_forward_workspace_size(op_, &args_, &bytes) != FA_OK) error_ = fa_last_error();
    args_.workspace = allocate(std::max<size_t>(bytes, 1));
    args_.workspace_size = bytes;
  }
}

/// One set for all: a 32nd of the smallest codes' bytes.
void Workload::create_scales() {
  if (!is_quantised(kv_dtype()) || code_kind(kv_dtype()) == CodeKind::block) return;
  for (fa_tensor *scale : {&args_.k_scale, &args_.v_scale}) *scale = factors(case_.rows_k, case_.heads_kv, 0x1p-6f);
}

/// Everything that fa_backward reads and writes; out and lse are those of a forward call.
void Workload::create_backward() {
  float *lse = static_cast<float *>(allocate(sizeof(float) * static_cast<size_t>(case_.rows_q * case_.heads_q)));
  fa_tensor_init(&args_.lse, lse, FA_F32, 1, case_.heads_q, case_.rows_q, 1);
  if (fa_forward(op_, &args_) != FA_OK) error_ = fa_last_error();
  fa_backward_args_init(&backward_, sizeof backward_);
  backward_.q = args_.q;
  backward_.k = args_.k;
  backward_.v = args_.v;
  backward_.out = args_.out;
  backward_.lse = args_.lse;
  backward_.dout = tensor(case_.rows_q, case_.heads_q, case_.layout, case_.dtype);
  backward_.dq = tensor(case_.rows_q, case_.heads_q, case_.layout, case_.dtype);
  backward_.dk = tensor(case_.rows_k, case_.heads_kv, case_.layout, case_.dtype);
  backward_.dv = tensor(case_.rows_k, case_.heads_kv, case_.layout, case_.dtype);
  size_t bytes = 0;
  if (fa_backward_workspace_size(op_, &backward_, &bytes) != FA_OK) error_ = fa_last_error();
  backward_.workspace = allocate(std::max<size_t>(bytes, 1));
  backward_.workspace_size = bytes;
}

double Workload::moved_bytes() const {
  return 2.0 * static_cast<double>(case_.rows_k * case_.heads_kv * row_bytes(kv_dtype(), case_.head_dim));
}

void Workload::use_next() {
  next_set_ = (next_set_ + 1) % k_sets_.size();
  args_.k.data = const_cast<void *>(k_sets_[next_set_].data);
  args_.v.data = const_cast<void *>(v_sets_[next_set_].data);
}

double Workload::time_plain() {
  use_next();
  return read_seconds({k_sets_[next_set_], v_sets_[next_set_]}, case_.threads);
}

}  // namespace fa::bench
