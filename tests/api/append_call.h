// A small valid append call with its memory, for tests that change one field of it.
#pragma once

#include <cstring>

#include "call.h"

namespace api_test {

/// B = 2, Sn = 3, 8 rows of cache, Hq = 4, Hkv = 2, D = 8, all f32, contiguous; keys and values, nothing optional.
/// Arrays and tensors for every optional field stand by.
struct AppendCall : Call {
  static constexpr int64_t sn = 3, cache_rows = 8, pairs = 4, table_rows = 16;

  fa_append_args call;
  float new_k[b * sn * hkv * d] = {}, new_v[b * sn * hkv * d] = {}, new_q[b * sn * hq * d] = {};
  float k_cache[b * cache_rows * hkv * d], v_cache[b * cache_rows * hkv * d], q_out[b * sn * hq * d];
  float cos[table_rows * pairs] = {}, sin[table_rows * pairs] = {};
  int32_t positions[b * sn] = {0, 1, 2, 3, 4, 5};
  int64_t slots[b * sn] = {0, 1, -1, 15, 9, 8};
  int32_t lens[b] = {5, 0}, pad[b] = {1, 0}, cu_new[b + 1] = {0, 1, 3}, used_new[b] = {3, 2};

  AppendCall() {
    for (auto *t : {&new_k, &new_v})
      for (float &x : *t) x = 1.5f;
    std::memset(k_cache, 0xa5, sizeof k_cache);
    std::memset(v_cache, 0xa5, sizeof v_cache);
    std::memset(q_out, 0xa5, sizeof q_out);
    bind();
  }

  /// Creates an op, runs the call on it and destroys it; the first status that is no FA_OK.
  fa_status run() {
    fa_op *op = nullptr;
    fa_status status = fa_create(&desc, &op);
    if (status == FA_OK) status = fa_append(op, &call);
    fa_destroy(op);
    return status;
  }

  bool same_outputs(const AppendCall &other) const {
    return std::memcmp(k_cache, other.k_cache, sizeof k_cache) == 0 &&
           std::memcmp(v_cache, other.v_cache, sizeof v_cache) == 0 &&
           std::memcmp(q_out, other.q_out, sizeof q_out) == 0;
  }

  void pack() {
    for (fa_tensor *t : {&call.k, &call.v, &call.q, &call.q_out}) t->shape[0] = 1;
    call.cu_seqlens_new = cu_new;
    call.num_seqs = b;
  }
  void add_rotary() {
    fa_tensor_init(&call.rotary_cos, cos, FA_F32, 1, table_rows, 1, pairs);
    fa_tensor_init(&call.rotary_sin, sin, FA_F32, 1, table_rows, 1, pairs);
  }
  void add_q() {
    add_rotary();
    fa_tensor_init(&call.q, new_q, FA_F32, b, sn, hq, d);
    fa_tensor_init(&call.q_out, q_out, FA_F32, b, sn, hq, d);
  }
  void add_positions() {
    add_rotary();
    fa_tensor_init(&call.positions, positions, FA_I32, b, sn, 1, 1);
  }
  void add_slots() { fa_tensor_init(&call.slot_mapping, slots, FA_I64, b, sn, 1, 1); }
  void add_table() { fa_tensor_init(&call.block_table, table, FA_I32, b, 2, 1, 1); }

 private:
  void bind() {
    fa_append_args_init(&call, sizeof call);
    fa_tensor_init(&call.k, new_k, FA_F32, b, sn, hkv, d);
    fa_tensor_init(&call.v, new_v, FA_F32, b, sn, hkv, d);
    fa_tensor_init(&call.k_cache, k_cache, FA_F32, b, cache_rows, hkv, d);
    fa_tensor_init(&call.v_cache, v_cache, FA_F32, b, cache_rows, hkv, d);
  }
};

}  // namespace api_test
