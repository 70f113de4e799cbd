// A small valid backward call with its memory, for tests that change one field of it.
#pragma once

#include <array>
#include <cstring>

#include "call.h"

namespace api_test {

/// The inputs of Call, and gradients of all of them; lse is as large as weights of 1/8 make it.
struct BackwardCall : Call {
  fa_backward_args call;
  float dout[b * sq * hq * d] = {}, dlse[b * hq * sq] = {}, delta[b * hq * sq] = {};
  float dq[b * sq * hq * d], dk[b * sk * hkv * d], dv[b * sk * hkv * d], dbias[b * hq * sq * sk], dsinks[b * hq];

  BackwardCall() {
    std::memset(out, 0, sizeof out);
    for (float &x : lse) x = 2.0794415f;
    for (auto [data, bytes] : gradients()) std::memset(data, 0xa5, bytes);
    bind();
  }
  /// Creates an op, runs the call on it and destroys it; the first status that is no FA_OK.
  fa_status run() {
    fa_op *op = nullptr;
    fa_status status = fa_create(&desc, &op);
    if (status == FA_OK) status = fa_backward(op, &call);
    fa_destroy(op);
    return status;
  }

  bool same_gradients(const BackwardCall &other) const {
    return std::memcmp(dq, other.dq, sizeof dq) == 0 && std::memcmp(dk, other.dk, sizeof dk) == 0 &&
           std::memcmp(dv, other.dv, sizeof dv) == 0 && std::memcmp(dbias, other.dbias, sizeof dbias) == 0 &&
           std::memcmp(dsinks, other.dsinks, sizeof dsinks) == 0;
  }

  void pack_q() {
    for (fa_tensor *t : {&call.q, &call.out, &call.dout, &call.dq, &call.lse}) t->shape[0] = 1;
    call.cu_seqlens_q = cu_q;
    call.num_seqs = b;
  }
  void pack_k() {
    for (fa_tensor *t : {&call.k, &call.v, &call.dk, &call.dv}) t->shape[0] = 1;
    call.cu_seqlens_k = cu_k;
    call.num_seqs = b;
  }
  void add_dlse() { fa_tensor_init(&call.dlse, dlse, FA_F32, b, hq, sq, 1); }
  void add_delta() { fa_tensor_init(&call.delta, delta, FA_F32, b, hq, sq, 1); }
  void add_dbias() {
    fa_tensor_init(&call.bias, bias, FA_F32, b, hq, sq, sk);
    fa_tensor_init(&call.dbias, dbias, FA_DTYPE_DEFAULT, b, hq, sq, sk);
  }
  void add_dsinks() {
    fa_tensor_init(&call.sinks, sinks, FA_F32, b, hq, 1, 1);
    fa_tensor_init(&call.dsinks, dsinks, FA_F32, b, hq, 1, 1);
  }

 private:
  struct Memory {
    void *data;
    size_t bytes;
  };
  std::array<Memory, 5> gradients() {
    return {{{dq, sizeof dq}, {dk, sizeof dk}, {dv, sizeof dv}, {dbias, sizeof dbias}, {dsinks, sizeof dsinks}}};
  }

  void bind() {
    fa_backward_args_init(&call, sizeof call);
    fa_tensor_init(&call.q, q, FA_F32, b, sq, hq, d);
    fa_tensor_init(&call.k, k, FA_F32, b, sk, hkv, d);
    fa_tensor_init(&call.v, v, FA_F32, b, sk, hkv, d);
    fa_tensor_init(&call.out, out, FA_F32, b, sq, hq, d);
    fa_tensor_init(&call.lse, lse, FA_F32, b, hq, sq, 1);
    fa_tensor_init(&call.dout, dout, FA_F32, b, sq, hq, d);
    fa_tensor_init(&call.dq, dq, FA_F32, b, sq, hq, d);
    fa_tensor_init(&call.dk, dk, FA_F32, b, sk, hkv, d);
    fa_tensor_init(&call.dv, dv, FA_F32, b, sk, hkv, d);
  }
};

}  // namespace api_test
