#include "call.h"

namespace api_test {

Call::Call() {
  std::memset(q, 0, sizeof q);
  std::memset(k, 0, sizeof k);
  std::memset(v, 0, sizeof v);
  std::memset(bias, 0, sizeof bias);
  std::memset(slopes, 0, sizeof slopes);
  std::memset(sinks, 0, sizeof sinks);
  for (float &scale : scales) scale = 1;
  std::memset(mask, 1, sizeof mask);
  std::memset(out, 0xa5, sizeof out);
  std::memset(lse, 0xa5, sizeof lse);

  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = d;
  desc.num_threads = 1;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q, FA_F32, b, sq, hq, d);
  fa_tensor_init(&args.k, k, FA_F32, b, sk, hkv, d);
  fa_tensor_init(&args.v, v, FA_F32, b, sk, hkv, d);
  fa_tensor_init(&args.out, out, FA_F32, b, sq, hq, d);
}

fa_op *Call::create() {
  fa_op *op = nullptr;
  EXPECT_EQ(fa_create(&desc, &op), FA_OK) << fa_last_error();
  return op;
}

fa_status Call::run() {
  fa_op *op = nullptr;
  fa_status status = fa_create(&desc, &op);
  if (status == FA_OK) status = fa_forward(op, &args);
  fa_destroy(op);
  return status;
}

void Call::pack_q() {
  args.q.shape[0] = args.out.shape[0] = 1;
  args.cu_seqlens_q = cu_q;
  args.num_seqs = b;
}

void Call::pack_k() {
  args.k.shape[0] = args.v.shape[0] = 1;
  args.cu_seqlens_k = cu_k;
  args.num_seqs = b;
}

void Call::page() {
  fa_tensor_init(&args.block_table, table, FA_I32, b, 2, 1, 1);
}
void Call::quantise(fa_dtype dtype) {
  desc.dtype_kv = args.k.dtype = args.v.dtype = dtype;
  for (fa_tensor *scale : {&args.k_scale, &args.v_scale}) fa_tensor_init(scale, scales, FA_F32, 1, 1, hkv, 1);
}
void Call::divide() {
  desc.head_dim_rope = 4;
  args.k.shape[3] = d - 4;
  fa_tensor_init(&args.k_rope, rope, FA_F32, b, sk, hkv, 4);
}
void Call::add_tree() {
  fa_tensor_init(&args.tree_mask, tree, FA_I32, 1, 1, sq, 1);
  fa_tensor_init(&args.tree_depth, depths, FA_I32, b, sq, 1, 1);
}
void Call::add_lse() {
  fa_tensor_init(&args.lse, lse, FA_F32, b, hq, sq, 1);
}
void Call::add_bias() {
  fa_tensor_init(&args.bias, bias, FA_F32, b, hq, sq, sk);
}
void Call::add_mask() {
  fa_tensor_init(&args.mask, mask, FA_BOOL, b, hq, sq, sk);
}
void Call::add_slopes() {
  fa_tensor_init(&args.alibi_slopes, slopes, FA_F32, b, hq, 1, 1);
}
void Call::add_sinks() {
  fa_tensor_init(&args.sinks, sinks, FA_F32, b, hq, 1, 1);
}

}  // namespace api_test
