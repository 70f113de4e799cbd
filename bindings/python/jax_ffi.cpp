// fa_forward and fa_backward as custom calls of XLA on the CPU, for libfa.jax: buffers are tensors, attributes are
// fields of fa_desc. A separate library, since it is compiled against the headers that come with jaxlib.
#include <fa.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "jax_buffers.h"
#include "schema/schema.h"

namespace ffi = xla::ffi;
using fa::schema::Access;
using fa::schema::Fields;
using fa::schema::Presence;
using fa::schema::ShapeRule;
using fa::schema::TypeRule;
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

/// The names in an attribute, "bias,sinks", in the order of the buffers that they name.
class Names {
 public:
  explicit Names(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find(','), text.size());
      names_.push_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  size_t size() const { return names_.size(); }
  std::string_view operator[](size_t i) const { return names_[i]; }

  /// The index of a name; size() where no field has it.
  size_t find(std::string_view name) const {
    return size_t(std::find(names_.begin(), names_.end(), name) - names_.begin());
  }
  bool has_any(std::initializer_list<const char *> names) const {
    return std::any_of(names.begin(), names.end(), [&](const char *name) { return find(name) != size(); });
  }

 private:
  std::vector<std::string_view> names_;
};

Elements elements_of(TypeRule rule) {
  switch (rule) {
    case TypeRule::f32:
      return Elements::f32;
    case TypeRule::boolean:
      return Elements::boolean;
    case TypeRule::i32:
      return Elements::i32;
    default:
      return Elements::floats;
  }
}

/// Sets the optional inputs of either pass. rest holds those that are named in `given`, in its order.
template <typename Args>
void set_inputs(Reader &read, Args &args, const Names &given, const ffi::RemainingArgs &rest) {
  if (rest.size() != given.size()) return read.refuse("given does not name the inputs of this call");
  const auto buffer = [&](size_t i) { return rest.get<ffi::AnyBuffer>(i).value(); };
  int64_t sequences = args.q.shape[0];
  for (const auto &f : Fields<Args>::arrays) {
    const size_t at = given.find(f.name);
    if (f.more == 1 && at != given.size()) args.num_seqs = sequences = int64_t(buffer(at).element_count()) - 1;
  }
  size_t known = 0;
  for (const auto &f : Fields<Args>::arrays) {
    const size_t at = given.find(f.name);
    if (at == given.size()) continue;
    args.*f.field = read.ints(buffer(at), f.name, sequences + f.more);
    ++known;
  }
  for (const auto &f : Fields<Args>::tensors) {
    const size_t at = given.find(f.name);
    if (at == given.size() || f.presence == Presence::required || f.access == Access::written) continue;
    args.*f.field = read.tensor(buffer(at), f.name, elements_of(f.type));
    ++known;
  }
  if (known != given.size()) read.refuse("given has a name that is unknown or there twice");
  args.max_seqlen_q = read.attribute<int64_t>("max_seqlen_q");
  args.max_seqlen_k = read.attribute<int64_t>("max_seqlen_k");
}

/// Whether sequences may leave rows of q or of k out: the library does not write those, and a result of XLA may hold
/// anything.
bool leaves_queries(const Names &given) {
  return given.has_any({"cu_seqlens_q", "seqused_q"});
}
bool leaves_keys(const Names &given) {
  return given.has_any({"cu_seqlens_k", "seqused_k", "leftpad_k", "kv_batch_idx"});
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
  const Names given(read.attribute<std::string_view>("given"));
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
  if (leaves_queries(given)) {
    clear(*out);
    std::fill_n(static_cast<float *>(lse->untyped_data()), lse->element_count(),
                -std::numeric_limits<float>::infinity());
  }
  return run(desc, args, fa_forward);
}

/// The gradient of an input; null where none is computed.
const fa::schema::Tensor<fa_backward_args> *gradient_of(std::string_view input) {
  for (const auto &f : Fields<fa_backward_args>::tensors)
    if (f.access == Access::written && std::string_view(f.name).substr(1) == input) return &f;
  return nullptr;
}

/// As forward, with the gradient of lse among the inputs. The results are the gradients of the inputs that are named in
/// the attribute `wanted`.
ffi::Error backward(ffi::AnyBuffer q, ffi::AnyBuffer k, ffi::AnyBuffer v, ffi::AnyBuffer out, ffi::AnyBuffer lse,
                    ffi::AnyBuffer dout, ffi::RemainingArgs rest, ffi::RemainingRets gradients,
                    ffi::Dictionary attributes) {
  Reader read(attributes);
  const Names given(read.attribute<std::string_view>("given"));
  const Names wanted(read.attribute<std::string_view>("wanted"));
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
    const auto *const g = gradient_of(wanted[i]);
    if (!g) return ffi::Error::InvalidArgument("wanted has an unknown name");
    args.*g->field = read.tensor(*buffer, g->name, elements_of(g->type));
    const bool of_keys = g->shape == ShapeRule::as_k || g->shape == ShapeRule::as_v;
    const bool partly = g->shape == ShapeRule::as_q ? leaves_queries(given) : of_keys && leaves_keys(given);
    if (!read.refused() && partly) clear(*buffer);
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
