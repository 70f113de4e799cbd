// fa_forward as a custom call of XLA on the CPU, for libfa.jax: buffers are tensors, attributes are fields of fa_desc.
// A library of its own, since it is compiled against the headers that come with jaxlib.
#include <fa.h>

#include <cstdint>
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

/// rest holds the optional tensors whose letters are in the attribute `given`, in its order.
ffi::Error run(ffi::AnyBuffer q, ffi::AnyBuffer k, ffi::AnyBuffer v, ffi::RemainingArgs rest,
               ffi::Result<ffi::AnyBuffer> out, ffi::Result<ffi::AnyBuffer> lse, ffi::Dictionary attributes) {
  const auto number = [&](const char *name) { return attributes.get<int64_t>(name).value(); };
  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.device = FA_DEVICE_CPU;
  desc.dtype_q = dtype_of(q.element_type());
  desc.dtype_kv = dtype_of(k.element_type());
  desc.dtype_out = dtype_of(out->element_type());
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

  fa_args args;
  fa_args_init(&args, sizeof args);
  args.q = tensor_of(q);
  args.k = tensor_of(k);
  args.v = tensor_of(v);
  args.out = tensor_of(*out);
  args.lse = tensor_of(*lse);
  args.max_seqlen_q = number("max_seqlen_q");
  args.max_seqlen_k = number("max_seqlen_k");
  args.num_splits = int32_t(number("num_splits"));
  const auto given = attributes.get<std::string_view>("given").value();
  for (size_t i = 0; i < given.size(); ++i) {
    const auto buffer = rest.get<ffi::AnyBuffer>(i).value();
    const auto *const ints = static_cast<const int32_t *>(buffer.untyped_data());
    switch (given[i]) {
      case 'b':
        args.bias = tensor_of(buffer);
        break;
      case 'm':
        args.mask = tensor_of(buffer);
        break;
      case 'a':
        args.alibi_slopes = tensor_of(buffer);
        break;
      case 's':
        args.sinks = tensor_of(buffer);
        break;
      case 't':
        args.block_table = tensor_of(buffer);
        break;
      case 'Q':
        args.cu_seqlens_q = ints, args.num_seqs = buffer.dimensions()[0] - 1;
        break;
      case 'K':
        args.cu_seqlens_k = ints, args.num_seqs = buffer.dimensions()[0] - 1;
        break;
      case 'u':
        args.seqused_q = ints;
        break;
      case 'U':
        args.seqused_k = ints;
        break;
      case 'l':
        args.leftpad_k = ints;
        break;
      case 'i':
        args.kv_batch_idx = ints;
        break;
      case 'o':
        args.q_offset = ints;
        break;
      default:
        return ffi::Error::Internal("libfa.jax and its library do not fit together");
    }
  }
  fa_op *op = nullptr;
  fa_status status = fa_create(&desc, &op);
  if (status == FA_OK) status = fa_forward(op, &args);
  fa_destroy(op);
  return status == FA_OK ? ffi::Error::Success() : failed(status);
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(fa_jax_attention, run,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .RemainingArgs()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attrs());
