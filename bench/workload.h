// One attention call of a benchmark, ready to run: tensors with contents, an op, and how much work it is.
#pragma once

#include <fa.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "peak.h"

namespace fa::bench {

enum class Layout { bhsd, bshd };

/// A case to compute. The defaults are the plain kernel at the shape most figures use.
struct Case {
  fa_dtype dtype = FA_F32;
  fa_dtype kv_dtype = FA_DTYPE_DEFAULT;  // as dtype; codes have an f32 scale a token and head, unless they are blocks
  int64_t heads_q = 8;
  int64_t heads_kv = 8;
  int64_t rows_q = 1024;
  int64_t rows_k = 0;  // 0: as rows_q
  int64_t head_dim = 128;
  fa_mask mask = FA_MASK_NONE;
  int64_t window_left = -1;
  int64_t window_right = -1;
  float softcap = 0;
  bool alibi = false;
  bool bias = false;  // f32, one (rows_q, rows_k) plane for all heads
  bool sinks = false;
  Layout layout = Layout::bhsd;
  int threads = 1;
  std::string arch;            // "": the best; else the kernel of this ISA is forced
  bool cold = false;           // several K/V sets, used cyclically, so that none is cached when it is used
  bool own_workspace = false;  // the caller's workspace instead of the library's allocation
  bool backward = false;       // the gradients of q, k and v instead
  bool append = false;         // rows_q new keys and values are written into a cache of rows_k instead
  bool rotary = false;         // with rotary embedding of all elements
};

/// The calls of a figure. For use by one thread at a time.
class Subject {
 public:
  explicit Subject(const Case &wanted) : case_(wanted) {}
  virtual ~Subject();
  Subject(const Subject &) = delete;
  Subject &operator=(const Subject &) = delete;

  /// "" when the case can run, else why not.
  const std::string &error() const { return error_; }

  /// The name of the call's kernel.
  const char *kernel() const { return fa_op_kernel_name(op_); }

  /// One call on the present memory. False after an error.
  virtual bool call() = 0;

  /// Seconds of one call on the next memory; negative after an error (fa_last_error says why).
  double time(Clock clock);

  /// Seconds to do nothing but move the next memory on the case's threads, on their clock.
  virtual double time_plain() = 0;

  /// Floating-point operations of one call.
  virtual double flops() const = 0;

  /// Bytes that time_plain() moves.
  virtual double moved_bytes() const = 0;

 protected:
  void create_op();
  void *allocate(size_t bytes);
  fa_dtype kv_dtype() const { return case_.kv_dtype != FA_DTYPE_DEFAULT ? case_.kv_dtype : case_.dtype; }
  fa_tensor tensor(int64_t rows, int64_t heads, Layout layout, fa_dtype dtype);
  /// A number for each of these rows and heads.
  fa_tensor factors(int64_t rows, int64_t heads, float value);
  virtual void use_next() = 0;

  Case case_;
  std::string error_;
  fa_op *op_ = nullptr;

 private:
  std::vector<HugeBuffer> buffers_;
};

/// The case's calls, of fa_append where it says so.
std::unique_ptr<Subject> make_subject(const Case &wanted);

/// fa_forward or fa_backward, on one K/V set after another.
class Workload : public Subject {
 public:
  explicit Workload(const Case &wanted);

  bool call() override { return (case_.backward ? fa_backward(op_, &backward_) : fa_forward(op_, &args_)) == FA_OK; }

  /// Reads the next K/V set.
  double time_plain() override;

  /// 4 * head_dim for each attended (query, key) pair (backward: 10 * head_dim), a causal square counted as half.
  double flops() const override { return flops_; }

  /// The bytes of one K/V set.
  double moved_bytes() const override;

 private:
  void create_scales();
  void create_tensors();
  void create_backward();
  void use_next() override;

  double flops_ = 0;
  fa_forward_args args_;
  fa_backward_args backward_;
  std::vector<Span> k_sets_, v_sets_;
  size_t next_set_ = 0;
};

/// The name of the kernel for this ISA that this machine can run, or "".
std::string kernel_of(const std::string &arch);

}  // namespace fa::bench
