// A small valid merge with its memory, for tests that change one field of it.
#pragma once

#include "call.h"

namespace api_test {

/// Three parts of B = 2, Sq = 3, Hq = 4, D = 8, all f32, contiguous; lse and mask only where they are added.
struct MergeCall {
  static constexpr int64_t b = 2, sq = 3, hq = 4, d = 8;
  static constexpr int parts = 3;

  fa_desc desc;
  fa_merge_args args;
  fa_tensor outs[FA_MAX_PARTS], lses[FA_MAX_PARTS];
  alignas(256) float out_of[parts][b * sq * hq * d] = {}, lse_of[parts][b * hq * sq] = {};
  float out[b * sq * hq * d], lse[b * hq * sq];
  unsigned char mask[b * hq * sq];
  alignas(256) char workspace[256];

  MergeCall() {
    fa_desc_init(&desc, sizeof desc);
    desc.dtype_q = FA_F32;
    desc.head_dim = d;
    desc.num_threads = 1;
    fa_merge_args_init(&args, sizeof args);
    for (int p = 0; p < FA_MAX_PARTS; ++p) {
      fa_tensor_init(&outs[p], out_of[p % parts], FA_F32, b, sq, hq, d);
      fa_tensor_init(&lses[p], lse_of[p % parts], FA_F32, b, hq, sq, 1);
    }
    for (int p = 0; p < parts; ++p) out_of[p][0] = static_cast<float>(p + 1);
    std::memset(out, 0xa5, sizeof out);
    std::memset(lse, 0xa5, sizeof lse);
    std::memset(mask, 1, sizeof mask);
    args.outs = outs;
    args.lses = lses;
    args.num_parts = parts;
    fa_tensor_init(&args.out, out, FA_F32, b, sq, hq, d);
  }
  MergeCall(const MergeCall &) = delete;
  MergeCall &operator=(const MergeCall &) = delete;

  void add_lse() { fa_tensor_init(&args.lse, lse, FA_F32, b, hq, sq, 1); }
  void add_mask() { fa_tensor_init(&args.mask, mask, FA_BOOL, b, hq, sq, 1); }

  fa_op *create() {
    fa_op *op = nullptr;
    EXPECT_EQ(fa_create(&desc, &op), FA_OK) << fa_last_error();
    return op;
  }

  fa_status run() {
    fa_op *op = create();
    const fa_status status = op ? fa_merge(op, &args) : FA_ERROR_INVALID_ARGUMENT;
    fa_destroy(op);
    return status;
  }

  bool unwritten() const {
    const auto filled = [](const auto &array) {
      for (const char byte : std::string(reinterpret_cast<const char *>(array), sizeof array))
        if (byte != char(0xa5)) return false;
      return true;
    };
    return filled(out) && filled(lse);
  }
};

}  // namespace api_test
