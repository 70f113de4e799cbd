#include "ops.h"

#include <map>
#include <mutex>
#include <tuple>

namespace fa_ggml {
namespace {

auto key_of(const fa_desc &desc) {
  return std::tuple(desc.dtype_kv, desc.dtype_v, desc.mask, desc.head_dim, desc.head_dim_v, desc.window_left,
                    desc.softmax_scale, desc.softcap, desc.num_threads);
}

constexpr size_t most = 64;  // a model has a few; a program that tries many numbers of threads must not grow for ever

}  // namespace

std::shared_ptr<const fa::Op> op_of(const fa_desc &desc) {
  static std::mutex mutex;
  static std::map<decltype(key_of(desc)), std::shared_ptr<const fa::Op>> ops;
  const std::lock_guard lock(mutex);
  const auto found = ops.find(key_of(desc));
  if (found != ops.end()) return found->second;
  const auto made = std::make_shared<const fa::Op>(desc);
  if (ops.size() == most) ops.clear();
  ops.emplace(key_of(desc), made);
  return made;
}

}  // namespace fa_ggml
