// Buffers and attributes of XLA as the fields of fa.h's structures, each of a type, a rank and a size that the field
// may have: libfa.jax checks the same, but a custom call may come from anywhere.
#ifndef LIBFA_PYTHON_JAX_BUFFERS_H
#define LIBFA_PYTHON_JAX_BUFFERS_H

#include <fa.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace fa_jax {

namespace ffi = xla::ffi;

/// The element types that a buffer may have.
enum class Elements { floats, f32, boolean, i32 };

/// The call's inputs, results and attributes, and the first thing that is wrong with them.
class Reader {
 public:
  explicit Reader(const ffi::Dictionary &attributes) : attributes_(attributes) {}

  /// A contiguous buffer of four dimensions.
  fa_tensor tensor(const ffi::AnyBuffer &buffer, const char *name, Elements elements) {
    fa_tensor tensor = {};
    const auto d = buffer.dimensions();
    const fa_dtype dtype = type(buffer, name, elements);
    if (d.size() != 4) {
      refuse(std::string(name) + " has " + std::to_string(d.size()) + " dimensions; expected 4");
    } else if (dtype != FA_DTYPE_DEFAULT) {
      fa_tensor_init(&tensor, buffer.untyped_data(), dtype, d[0], d[1], d[2], d[3]);
    }
    return tensor;
  }

  /// A buffer of `count` int32.
  const int32_t *ints(const ffi::AnyBuffer &buffer, const char *name, int64_t count) {
    type(buffer, name, Elements::i32);
    if (int64_t(buffer.element_count()) != count) {
      refuse(std::string(name) + " has " + std::to_string(buffer.element_count()) + " entries; expected " +
             std::to_string(count));
    }
    return static_cast<const int32_t *>(buffer.untyped_data());
  }

  template <typename T>
  T attribute(const char *name) {
    const auto found = attributes_.get<T>(name);
    if (found.has_value()) return found.value();
    refuse(std::string(name) + " is no attribute of this call: libfa.jax and its library do not fit together");
    return {};
  }

  /// The first refusal counts.
  void refuse(const std::string &text) {
    if (error_.empty()) error_ = text;
  }

  bool refused() const { return !error_.empty(); }

  ffi::Error error() const { return ffi::Error::InvalidArgument(error_); }

 private:
  static bool allowed(fa_dtype dtype, Elements elements) {
    switch (elements) {
      case Elements::floats:
        return dtype == FA_F32 || dtype == FA_F16 || dtype == FA_BF16;
      case Elements::f32:
        return dtype == FA_F32;
      case Elements::boolean:
        return dtype == FA_BOOL;
      case Elements::i32:
        return dtype == FA_I32;
    }
    return false;
  }

  static const char *expected(Elements elements) {
    switch (elements) {
      case Elements::floats:
        return "F32, F16 or BF16";
      case Elements::f32:
        return "F32";
      case Elements::boolean:
        return "PRED";
      case Elements::i32:
        return "S32";
    }
    return "";
  }

  /// No type of XLA maps to FA_DTYPE_DEFAULT, which is returned after a refusal.
  fa_dtype type(const ffi::AnyBuffer &buffer, const char *name, Elements elements) {
    const fa_dtype dtype = dtype_of(buffer.element_type());
    if (dtype != FA_DTYPE_DEFAULT && allowed(dtype, elements)) return dtype;
    std::ostringstream text;
    text << name << " has type " << buffer.element_type() << "; expected " << expected(elements);
    refuse(text.str());
    return FA_DTYPE_DEFAULT;
  }

  static fa_dtype dtype_of(ffi::DataType type) {
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

  const ffi::Dictionary &attributes_;
  std::string error_;
};

}  // namespace fa_jax

#endif
