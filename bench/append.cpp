#include "append.h"

#include <algorithm>
#include <cmath>

#include "core/dtype.h"

namespace fa::bench {

AppendWorkload::AppendWorkload(const Case &wanted) : Subject(wanted) {
  create_op();
  if (!op_) return;
  fa_append_args_init(&args_, sizeof args_);
  // New rows as a projection writes them.
  args_.k = tensor(case_.rows_q, case_.heads_kv, Layout::bshd, case_.dtype);
  args_.v = tensor(case_.rows_q, case_.heads_kv, Layout::bshd, case_.dtype);
  args_.cache_seqlens = &place_;
  create_caches();
  if (case_.rotary) create_rotary();
}

int64_t AppendWorkload::factors_of_a_row() const {
  const bool scaled = code_kind(kv_dtype()) == CodeKind::integer || code_kind(kv_dtype()) == CodeKind::floating;
  return scaled ? 1 + is_unsigned(kv_dtype()) : 0;
}

int64_t AppendWorkload::stored_bytes() const {
  return 2 * (row_bytes(kv_dtype(), case_.head_dim) + factors_of_a_row() * int64_t{sizeof(float)});
}

double AppendWorkload::moved_bytes() const {
  const int64_t read = 2 * row_bytes(case_.dtype, case_.head_dim);
  return static_cast<double>(case_.rows_q * case_.heads_kv * (read + stored_bytes()));
}

void AppendWorkload::create_caches() {
  const auto bytes = static_cast<size_t>(case_.rows_k * case_.heads_kv * stored_bytes());
  const size_t count = case_.cold ? cold_bytes() / bytes + 1 : 1;
  const auto rows = [&](float value) { return factors(case_.rows_k, case_.heads_kv, value); };
  for (size_t i = 0; i < count; ++i) {
    Cache cache;
    cache.k = tensor(case_.rows_k, case_.heads_kv, case_.layout, kv_dtype());
    cache.v = tensor(case_.rows_k, case_.heads_kv, case_.layout, kv_dtype());
    if (factors_of_a_row() > 0) cache.k_scale = rows(1), cache.v_scale = rows(1);
    if (factors_of_a_row() > 1) cache.k_zero = rows(8), cache.v_zero = rows(8);
    caches_.push_back(cache);
  }
  if (factors_of_a_row() > 0) args_.flags |= FA_APPEND_COMPUTE_SCALES;
  const auto copied = static_cast<size_t>(moved_bytes() / 2);
  copied_from_ = allocate(copied);
  const size_t room = std::max(copied, case_.cold ? cold_bytes() : 0);
  copied_to_ = {allocate(room), room};
}

void AppendWorkload::create_rotary() {
  const int64_t pairs = case_.head_dim / 2;
  for (fa_tensor *table : {&args_.rotary_cos, &args_.rotary_sin}) {
    auto *values = static_cast<float *>(allocate(sizeof(float) * static_cast<size_t>(case_.rows_k * pairs)));
    for (int64_t i = 0; i < case_.rows_k * pairs; ++i) {
      const double angle = static_cast<double>(i / pairs) * std::pow(1e4, -static_cast<double>(i % pairs) / pairs);
      values[i] = static_cast<float>(table == &args_.rotary_cos ? std::cos(angle) : std::sin(angle));
    }
    fa_tensor_init(table, values, FA_F32, 1, case_.rows_k, 1, pairs);
  }
}

void AppendWorkload::use_next() {
  place_ += static_cast<int32_t>(case_.rows_q);
  if (place_ + case_.rows_q > case_.rows_k) place_ = 0, cache_ = (cache_ + 1) % caches_.size();
  const Cache &cache = caches_[cache_];
  args_.k_cache = cache.k, args_.v_cache = cache.v;
  args_.k_scale = cache.k_scale, args_.v_scale = cache.v_scale;
  args_.k_zero = cache.k_zero, args_.v_zero = cache.v_zero;
}

double AppendWorkload::time_plain() {
  const auto bytes = static_cast<size_t>(moved_bytes() / 2);
  copied_ = copied_ + 2 * bytes <= copied_to_.bytes ? copied_ + bytes : 0;
  char *to = static_cast<char *>(const_cast<void *>(copied_to_.data)) + copied_;
  return copy_seconds({to, copied_from_, bytes}, case_.threads);
}

}  // namespace fa::bench
