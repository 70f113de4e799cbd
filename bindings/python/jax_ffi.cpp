// fa_forward and fa_backward as custom calls of XLA on the CPU, for libfa.jax: buffers are tensors, attributes are
// fields of fa_desc. A library of its own, since it is compiled against the headers that come with jaxlib.
#include <fa.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

fa_dtype dtype_of(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::F32:
      return FA_F32;
    case ffi::DataType::F16:
      return FA_F16;
    case ffi::DataType::BF16:
      return FA_BF16;
    case ffi::DataType::PRED:
      return FA_BOOL;
    case ffi::DataType::S32:
      return FA_I32;
    default:
      return FA_DTYPE_DEFAULT;
  }
}

/// A contiguous buffer of four dimensions; libfa.jax reshapes to that.
fa_tensor tensor_of(const ffi::AnyBuffer &buffer) {
  fa_tensor tensor;
  const auto d = buffer.dimensions();
  fa_tensor_init(&tensor, buffer.untyped_data(), dtype_of(buffer.element_type()), d[0], d[1], d[2], d[3]);
  return tensor;
}

ffi::Error failed(fa_status status) {
  const bool callers = status == FA_ERROR_INVALID_ARGUMENT;
  return ffi::Error(callers ? ffi::ErrorCode::kInvalidArgument : ffi::ErrorCode::kInternal, fa_last_error());
}

ffi::Error other_version() {
  return ffi::Error::Internal("libfa.jax and its library do not fit together");
}

fa_desc description(const ffi::Dictionary &attributes, const ffi::AnyBuffer &q, const ffi::AnyBuffer &k,
                    const ffi::AnyBuffer &v, const ffi::AnyBuffer &out) {
  const auto number = [&](const char *name) { return attributes.get<int64_t>(name).value(); };
  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.device = FA_DEVICE_CPU;
  desc.dtype_q = dtype_of(q.element_type());
  desc.dtype_kv = dtype_of(k.element_type());
  desc.dtype_out = dtype_of(out.element_type());
  desc.mask = int32_t(number("mask"));
  desc.head_dim = q.dimensions()[3];
  desc.head_dim_v = v.dimensions()[3];
  desc.window_left = number("window_left");
  desc.window_right = number("window_right");
  desc.attention_chunk = number("attention_chunk");
  desc.flags = uint32_t(number("flags"));
  desc.num_threads = int32_t(number("num_threads"));
  desc.softmax_scale = attributes.get<float>("softmax_scale").value();
  desc.softcap = attributes.get<float>("softcap").value();
  return desc;
}

/// Sets in args, of either pass, the optional input that `letter` stands for.
template <typename Args>
bool set_input(Args &args, char letter, const ffi::AnyBuffer &buffer) {
  const auto *const ints = static_cast<const int32_t *>(buffer.untyped_data());
  switch (letter) {
    case 'b':
      args.bias = tensor_of(buffer);
      return true;
    case 'm':
      args.mask = tensor_of(buffer);
      return true;
    case 'a':
      args.alibi_slopes = tensor_of(buffer);
      return true;
    case 's':
      args.sinks = tensor_of(buffer);
      return true;
    case 't':
      args.block_table = tensor_of(buffer);
      return true;
    case 'Q':
      args.cu_seqlens_q = ints, args.num_seqs = buffer.dimensions()[0] - 1;
      return true;
    case 'K':
      args.cu_seqlens_k = ints, args.num_seqs = buffer.dimensions()[0] - 1;
      return true;
    case 'u':
      args.seqused_q = ints;
      return true;
    case 'U':
      args.seqused_k = ints;
      return true;
    case 'l':
      args.leftpad_k = ints;
      return true;
    case 'i':
      args.kv_batch_idx = ints;
      return true;
    case 'o':
      args.q_offset = ints;
      return true;
    default:
      return false;
  }
}

template <typename Args>
void set_bounds(Args &args, const ffi::Dictionary &attributes) {
  args.max_seqlen_q = attributes.get<int64_t>("max_seqlen_q").value();
  args.max_seqlen_k = attributes.get<int64_t>("max_seqlen_k").value();
}

/// Whether sequences may leave rows out: those are not written by the library, and a result of XLA may hold anything.
bool leaves_rows(std::string_view given, const char *letters) {
  return given.find_first_of(letters) != std::string_view::npos;
}

void clear(ffi::AnyBuffer &buffer) {
  std::memset(buffer.untyped_data(), 0, buffer.size_bytes());
}

template <typename Args>
ffi::Error run(const fa_desc &desc, const Args &args, fa_status (*pass)(const fa_op *, const Args *)) {
  fa_op *op = nullptr;
  fa_status status = fa_create(&desc, &op);
  if (status == FA_OK) status = pass(op, &args);
  fa_destroy(op);
  return status == FA_OK ? ffi::Error::Success() : failed(status);
}

/// rest holds the optional inputs whose letters are in the attribute `given`, in its order.
ffi::Error forward(ffi::AnyBuffer q, ffi::AnyBuffer k, ffi::AnyBuffer v, ffi::RemainingArgs rest,
                   ffi::Result<ffi::AnyBuffer> out, ffi::Result<ffi::AnyBuffer> lse, ffi::Dictionary attributes) {
  const auto given = attributes.get<std::string_view>("given").value();
  fa_args args;
  fa_args_init(&args, sizeof args);
  args.q = tensor_of(q);
  args.k = tensor_of(k);
  args.v = tensor_of(v);
  args.out = tensor_of(*out);
  args.lse = tensor_of(*lse);
  args.num_splits = int32_t(attributes.get<int64_t>("num_splits").value());
  set_bounds(args, attributes);
  for (size_t i = 0; i < given.size(); ++i) {
    if (!set_input(args, given[i], rest.get<ffi::AnyBuffer>(i).value())) return other_version();
  }
  if (leaves_rows(given, "Qu")) {
    clear(*out);
    std::fill_n(static_cast<float *>(lse->untyped_data()), lse->element_count(),
                -std::numeric_limits<float>::infinity());
  }
  return run(description(attributes, q, k, v, *out), args, fa_forward);
}

/// As forward, with D in `given` for the gradient of lse. The results are the gradients of the inputs whose letters are
/// in the attribute `wanted`.
ffi::Error backward(ffi::AnyBuffer q, ffi::AnyBuffer k, ffi::AnyBuffer v, ffi::AnyBuffer out, ffi::AnyBuffer lse,
                    ffi::AnyBuffer dout, ffi::RemainingArgs rest, ffi::RemainingRets gradients,
                    ffi::Dictionary attributes) {
  const auto given = attributes.get<std::string_view>("given").value();
  const auto wanted = attributes.get<std::string_view>("wanted").value();
  fa_backward_args args;
  fa_backward_args_init(&args, sizeof args);
  args.q = tensor_of(q);
  args.k = tensor_of(k);
  args.v = tensor_of(v);
  args.out = tensor_of(out);
  args.lse = tensor_of(lse);
  args.dout = tensor_of(dout);
  set_bounds(args, attributes);
  for (size_t i = 0; i < given.size(); ++i) {
    const auto buffer = rest.get<ffi::AnyBuffer>(i).value();
    if (given[i] == 'D') {
      args.dlse = tensor_of(buffer);
    } else if (!set_input(args, given[i], buffer)) {
      return other_version();
    }
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    auto gradient = gradients.get<ffi::AnyBuffer>(i).value();
    switch (wanted[i]) {
      case 'q':
        args.dq = tensor_of(*gradient);
        if (leaves_rows(given, "Qu")) clear(*gradient);
        break;
      case 'k':
        args.dk = tensor_of(*gradient);
        if (leaves_rows(given, "KUli")) clear(*gradient);
        break;
      case 'v':
        args.dv = tensor_of(*gradient);
        if (leaves_rows(given, "KUli")) clear(*gradient);
        break;
      case 'b':
        args.dbias = tensor_of(*gradient);
        break;
      case 's':
        args.dsinks = tensor_of(*gradient);
        break;
      default:
        return other_version();
    }
  }
  return run(description(attributes, q, k, v, out), args, fa_backward);
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(fa_jax_attention, forward,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .RemainingArgs()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attrs());

XLA_FFI_DEFINE_HANDLER_SYMBOL(fa_jax_attention_backward, backward,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs());
