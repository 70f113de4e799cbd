#include "plugin/op_cache.h"

namespace fa_plugin {

std::shared_ptr<const fa::Op> OpCache::op(const fa_desc &desc) {
  constexpr size_t most = 64;  // a model has a few; a program that tries many numbers of threads must not grow for ever
  const Key key(desc.dtype_q, desc.dtype_kv, desc.dtype_v, desc.mask, desc.head_dim, desc.head_dim_v, desc.window_left,
                desc.window_right, desc.softmax_scale, desc.softcap, desc.num_threads);
  const std::lock_guard lock(mutex_);
  const auto found = ops_.find(key);
  if (found != ops_.end()) return found->second;
  const auto created = std::make_shared<const fa::Op>(desc);
  if (ops_.size() == most) ops_.clear();
  ops_.emplace(key, created);
  return created;
}

}  // namespace fa_plugin
