// Thin RAII over fa.h for C++11 and later: an owner for fa_op, an exception for fa_status, tensors by value, and nothing else.
//
//   fa::Desc desc;                                  // an fa_desc with its defaults
//   desc.dtype_q = FA_F32;
//   desc.head_dim = 64;
//   desc.mask = FA_MASK_CAUSAL;
//   const fa::Op op(desc);                          // throws fa::Error
//
//   fa::ForwardArgs args;                           // an fa_forward_args with everything absent
//   args.q = fa::tensor(q, 1, 128, 4, 64);          // contiguous (batch, sequence, heads, dim); the type follows from q
//   args.k = fa::tensor(k, 1, 128, 2, 64);
//   args.v = fa::tensor(v, 1, 128, 2, 64);
//   args.out = fa::tensor(out, 1, 128, 4, 64);
//   op(args);
//
// Everything is inline and forwards to fa.h, which is the specification.
#ifndef LIBFA_FA_HPP
#define LIBFA_FA_HPP

#include <fa.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace fa {

/// Thrown when a call fails: what() is the text of fa_last_error().
class Error : public std::runtime_error {
 public:
  Error(fa_status status, const std::string &text) : std::runtime_error(text), status_(status) {}

  /// The kind of error: FA_ERROR_INVALID_ARGUMENT, FA_ERROR_UNSUPPORTED, ...
  fa_status status() const noexcept { return status_; }

 private:
  fa_status status_;
};

/// Throws Error unless status is FA_OK. Call it at once, on the thread that made the call.
inline void check(fa_status status) {
  if (status != FA_OK) throw Error(status, fa_last_error());
}

/// An fa_desc, initialised to its defaults.
struct Desc : fa_desc {
  Desc() { fa_desc_init(this, sizeof(fa_desc)); }
};

/// An fa_forward_args, initialised with everything absent.
struct ForwardArgs : fa_forward_args {
  ForwardArgs() { fa_forward_args_init(this, sizeof(fa_forward_args)); }
};

/// An fa_backward_args, initialised with everything absent.
struct BackwardArgs : fa_backward_args {
  BackwardArgs() { fa_backward_args_init(this, sizeof(fa_backward_args)); }
};

/// An fa_merge_args, initialised with everything absent.
struct MergeArgs : fa_merge_args {
  MergeArgs() { fa_merge_args_init(this, sizeof(fa_merge_args)); }
};

/// An fa_append_args, initialised with everything absent.
struct AppendArgs : fa_append_args {
  AppendArgs() { fa_append_args_init(this, sizeof(fa_append_args)); }
};

/// The fa_dtype of a C++ element type. For half and bfloat16 types of your own, specialise it:
///   template <> struct fa::dtype_of<my::half> { static constexpr fa_dtype value = FA_F16; };
template <class T>
struct dtype_of;
template <>
struct dtype_of<float> {
  static constexpr fa_dtype value = FA_F32;
};
template <>
struct dtype_of<bool> {
  static constexpr fa_dtype value = FA_BOOL;
};
template <>
struct dtype_of<std::int32_t> {
  static constexpr fa_dtype value = FA_I32;
};
template <>
struct dtype_of<std::int64_t> {
  static constexpr fa_dtype value = FA_I64;
};
template <class T>
struct dtype_of<const T> : dtype_of<T> {};

/// A contiguous tensor of shape (d0, d1, d2, d3) whose elements are of the given type; data may be NULL.
inline fa_tensor tensor(const void *data, fa_dtype dtype, std::int64_t d0, std::int64_t d1, std::int64_t d2,
                        std::int64_t d3) {
  fa_tensor result;
  fa_tensor_init(&result, const_cast<void *>(data), dtype, d0, d1, d2, d3);
  return result;
}

/// The same, with the element type taken from the pointer.
template <class T>
fa_tensor tensor(T *data, std::int64_t d0, std::int64_t d1 = 1, std::int64_t d2 = 1, std::int64_t d3 = 1) {
  return tensor(data, dtype_of<T>::value, d0, d1, d2, d3);
}

/// The tensor with other strides, in elements: a slice, another layout, a broadcast.
inline fa_tensor strided(fa_tensor contiguous, std::int64_t s0, std::int64_t s1, std::int64_t s2, std::int64_t s3) {
  contiguous.stride[0] = s0;
  contiguous.stride[1] = s1;
  contiguous.stride[2] = s2;
  contiguous.stride[3] = s3;
  return contiguous;
}

/// Owns an fa_op. It can be moved but not copied; a moved-from Op is empty and may only be assigned to or destroyed.
class Op {
 public:
  /// fa_create. Throws Error.
  explicit Op(const fa_desc &desc) : op_(nullptr) { check(fa_create(&desc, &op_)); }
  ~Op() { fa_destroy(op_); }

  Op(Op &&other) noexcept : op_(other.op_) { other.op_ = nullptr; }
  Op &operator=(Op &&other) noexcept {
    if (this != &other) {
      fa_destroy(op_);
      op_ = other.op_;
      other.op_ = nullptr;
    }
    return *this;
  }
  Op(const Op &) = delete;
  Op &operator=(const Op &) = delete;

  /// fa_forward. Thread-safe. Throws Error.
  void operator()(const fa_forward_args &args) const { check(fa_forward(op_, &args)); }

  /// fa_forward_workspace_size. Thread-safe. Throws Error.
  std::size_t workspace_size(const fa_forward_args &args) const {
    std::size_t bytes = 0;
    check(fa_forward_workspace_size(op_, &args, &bytes));
    return bytes;
  }

  /// fa_backward. Thread-safe. Throws Error.
  void backward(const fa_backward_args &args) const { check(fa_backward(op_, &args)); }

  /// fa_backward_workspace_size. Thread-safe. Throws Error.
  std::size_t backward_workspace_size(const fa_backward_args &args) const {
    std::size_t bytes = 0;
    check(fa_backward_workspace_size(op_, &args, &bytes));
    return bytes;
  }

  /// fa_merge. Thread-safe. Throws Error.
  void merge(const fa_merge_args &args) const { check(fa_merge(op_, &args)); }

  /// fa_merge_workspace_size. Thread-safe. Throws Error.
  std::size_t merge_workspace_size(const fa_merge_args &args) const {
    std::size_t bytes = 0;
    check(fa_merge_workspace_size(op_, &args, &bytes));
    return bytes;
  }

  /// fa_append. Thread-safe. Throws Error.
  void append(const fa_append_args &args) const { check(fa_append(op_, &args)); }

  /// fa_append_workspace_size. Thread-safe. Throws Error.
  std::size_t append_workspace_size(const fa_append_args &args) const {
    std::size_t bytes = 0;
    check(fa_append_workspace_size(op_, &args, &bytes));
    return bytes;
  }

  /// The name of the kernel that it runs.
  const char *kernel() const noexcept { return fa_op_kernel_name(op_); }

  /// For calls to fa.h; this object keeps ownership.
  fa_op *get() const noexcept { return op_; }

 private:
  fa_op *op_;
};

}  // namespace fa

#endif  // LIBFA_FA_HPP
