// fa_forward and fa_backward as custom calls of XLA on the CPU, for libfa.jax: buffers are tensors, attributes are
// fields of fa_desc. A library of its own, since it is compiled against the headers that come with jaxlib.
#include <fa.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "jax_buffers.h"

namespace ffi = xla::ffi;
using fa_jax::Elements;
using fa_jax::Reader;

namespace {

/// fa_last_error's text with the names that the caller knows.
std::string named() {
  std::string text = fa_last_error();
  for (const std::string_view prefix : {"args.", "desc."}) {
    for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at)) {
      text.erase(at, prefix.size());
    }
  }
  return text;
}

ffi::Error failed(fa_status status) {
  switch (status) {
    case FA_ERROR_INVALID_ARGUMENT:
      return ffi::Error(ffi::ErrorCode::kInvalidArgument, named());
    case FA_ERROR_UNSUPPORTED:
      return ffi::Error(ffi::ErrorCode::kUnimplemented, named());
    case FA_ERROR_OUT_OF_MEMORY:
      return ffi::Error(ffi::ErrorCode::kResourceExhausted, named());
    default:
      return ffi::Error(ffi::ErrorCode::kInternal, named());
  }
}

/// Of a call whose tensors have been read.
template <typename Args>
fa_desc description(Reader &read, const Args &args) {
  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.device = FA_DEVICE_CPU;
  desc.dtype_q = args.q.dtype;
  desc.dtype_kv = args.k.dtype;
  desc.dtype_out = args.out.dtype;
  desc.mask = int32_t(read.attribute<int64_t>("mask"));
  desc.head_dim = args.q.shape[3];
  desc.head_dim_v = args.v.shape[3];
  desc.window_left = read.attribute<int64_t>("window_left");
  desc.window_right = read.attribute<int64_t>("window_right");
  desc.attention_chunk = read.attribute<int64_t>("attention_chunk");
  desc.flags = uint32_t(read.attribute<int64_t>("flags"));
  desc.num_threads = int32_t(read.attribute<int64_t>("num_threads"));
  desc.softmax_scale = read.attribute<float>("softmax_scale");
  desc.softcap = read.attribute<float>("softcap");
  return desc;
}

/// An optional array of int32 of fa_forward_args and fa_backward_args.
template <typename Args>
struct IntField {
  char letter;
  const char *name;
  const int32_t *Args::*field;
  bool packs;  // one entry more than there are sequences, whose number follows from it
};

template <typename Args>
constexpr IntField<Args> int_fields[] = {
    {'Q', "cu_seqlens_q", &Args::cu_seqlens_q, true}, {'K', "cu_seqlens_k", &Args::cu_seqlens_k, true},
    {'u', "seqused_q", &Args::seqused_q, false},      {'U', "seqused_k", &Args::seqused_k, false},
    {'l', "leftpad_k", &Args::leftpad_k, false},      {'i', "kv_batch_idx", &Args::kv_batch_idx, false},
    {'o', "q_offset", &Args::q_offset, false},
};

/// An optional tensor of both.
template <typename Args>
struct TensorField {
  char letter;
  const char *name;
  fa_tensor Args::*field;
  Elements elements;
};

template <typename Args>
constexpr TensorField<Args> tensor_fields[] = {
    {'b', "bias", &Args::bias, Elements::floats},
    {'m', "mask", &Args::mask, Elements::boolean},
    {'a', "alibi_slopes", &Args::alibi_slopes, Elements::f32},
    {'s', "sinks", &Args::sinks, Elements::f32},
    {'t', "block_table", &Args::block_table, Elements::i32},
};

constexpr TensorField<fa_backward_args> dlse_field = {'D', "dlse", &fa_backward_args::dlse, Elements::f32};

/// Sets the optional inputs of either pass. rest holds those whose letters are in `given`, in its order.
template <typename Args>
void set_inputs(Reader &read, Args &args, std::string_view given, const ffi::RemainingArgs &rest) {
  if (rest.size() != given.size()) return read.refuse("given does not name the inputs of this call");
  const auto buffer = [&](size_t i) { return rest.get<ffi::AnyBuffer>(i).value(); };
  int64_t sequences = args.q.shape[0];
  for (const auto &f : int_fields<Args>) {
    const size_t at = given.find(f.letter);
    if (f.packs && at != given.npos) args.num_seqs = sequences = int64_t(buffer(at).element_count()) - 1;
  }
  size_t known = 0;
  for (const auto &f : int_fields<Args>) {
    const size_t at = given.find(f.letter);
    if (at == given.npos) continue;
    args.*f.field = read.ints(buffer(at), f.name, f.packs ? sequences + 1 : sequences);
    ++known;
  }
  for (const auto &f : tensor_fields<Args>) {
    const size_t at = given.find(f.letter);
    if (at == given.npos) continue;
    args.*f.field = read.tensor(buffer(at), f.name, f.elements);
    ++known;
  }
  if constexpr (std::is_same_v<Args, fa_backward_args>) {
    if (const size_t at = given.find(dlse_field.letter); at != given.npos) {
      args.*dlse_field.field = read.tensor(buffer(at), dlse_field.name, dlse_field.elements);
      ++known;
    }
  }
  if (known != given.size()) read.refuse("given has a letter that is unknown or there twice");
  args.max_seqlen_q = read.attribute<int64_t>("max_seqlen_q");
  args.max_seqlen_k = read.attribute<int64_t>("max_seqlen_k");
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

ffi::Error forward(ffi::AnyBuffer q, ffi::AnyBuffer k, ffi::AnyBuffer v, ffi::RemainingArgs rest,
                   ffi::Result<ffi::AnyBuffer> out, ffi::Result<ffi::AnyBuffer> lse, ffi::Dictionary attributes) {
  Reader read(attributes);
  const auto given = read.attribute<std::string_view>("given");
  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  args.q = read.tensor(q, "q", Elements::floats);
  args.k = read.tensor(k, "k", Elements::floats);
  args.v = read.tensor(v, "v", Elements::floats);
  args.out = read.tensor(*out, "out", Elements::floats);
  args.lse = read.tensor(*lse, "lse", Elements::f32);
  args.num_splits = int32_t(read.attribute<int64_t>("num_splits"));
  set_inputs(read, args, given, rest);
  const fa_desc desc = description(read, args);
  if (read.refused()) return read.error();
  if (leaves_rows(given, "Qu")) {
    clear(*out);
    std::fill_n(static_cast<float *>(lse->untyped_data()), lse->element_count(),
                -std::numeric_limits<float>::infinity());
  }
  return run(desc, args, fa_forward);
}

/// A gradient that is asked for by its input's letter.
struct Gradient {
  char letter;
  const char *name;
  fa_tensor fa_backward_args::*field;
  Elements elements;
  const char *leaves;  // inputs with which rows may be left out
};

constexpr Gradient gradient_fields[] = {
    {'q', "dq", &fa_backward_args::dq, Elements::floats, "Qu"},
    {'k', "dk", &fa_backward_args::dk, Elements::floats, "KUli"},
    {'v', "dv", &fa_backward_args::dv, Elements::floats, "KUli"},
    {'b', "dbias", &fa_backward_args::dbias, Elements::floats, ""},
    {'s', "dsinks", &fa_backward_args::dsinks, Elements::f32, ""},
};

/// As forward, with D in `given` for the gradient of lse. The results are the gradients of the
/// inputs whose letters are in the attribute `wanted`.
ffi::Error backward(ffi::AnyBuffer q, ffi::AnyBuffer k, ffi::AnyBuffer v, ffi::AnyBuffer out, ffi::AnyBuffer lse,
                    ffi::AnyBuffer dout, ffi::RemainingArgs rest, ffi::RemainingRets gradients,
                    ffi::Dictionary attributes) {
  Reader read(attributes);
  const auto given = read.attribute<std::string_view>("given");
  const auto wanted = read.attribute<std::string_view>("wanted");
  fa_backward_args args;
  fa_backward_args_init(&args, sizeof args);
  args.q = read.tensor(q, "q", Elements::floats);
  args.k = read.tensor(k, "k", Elements::floats);
  args.v = read.tensor(v, "v", Elements::floats);
  args.out = read.tensor(out, "out", Elements::floats);
  args.lse = read.tensor(lse, "lse", Elements::f32);
  args.dout = read.tensor(dout, "dout", Elements::floats);
  set_inputs(read, args, given, rest);
  if (gradients.size() != wanted.size()) read.refuse("wanted does not name the results of this call");
  const fa_desc desc = description(read, args);
  for (size_t i = 0; i < wanted.size() && !read.refused(); ++i) {
    auto buffer = gradients.get<ffi::AnyBuffer>(i).value();
    const auto *const g = std::find_if(std::begin(gradient_fields), std::end(gradient_fields),
                                       [&](const Gradient &f) { return f.letter == wanted[i]; });
    if (g == std::end(gradient_fields)) return ffi::Error::InvalidArgument("wanted has an unknown letter");
    args.*g->field = read.tensor(*buffer, g->name, g->elements);
    if (!read.refused() && leaves_rows(given, g->leaves)) clear(*buffer);
  }
  return read.refused() ? read.error() : run(desc, args, fa_backward);
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
