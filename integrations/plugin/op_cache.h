// Ops of libfa by their descriptions: a host describes an attention at each call, and libfa at the first one.
#pragma once
#include <fa.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

namespace fa_plugin {

// Thread-safe. Descriptions may differ in the fields of Key alone.
class OpCache {
 public:
  // The op of a description, created at its first use. Throws fa::Error.
  std::shared_ptr<const fa::Op> op(const fa_desc &desc);

 private:
  using Key =
      std::tuple<fa_dtype, fa_dtype, fa_dtype, fa_mask, int64_t, int64_t, int64_t, int64_t, float, float, int32_t>;

  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const fa::Op>> ops_;
};

}  // namespace fa_plugin
