/* The offset of every field of the first release on 64-bit machines, and the value of every constant. None of these lines ever
 * changes; fields that are appended add lines and enlarge a size (but fa_tensor's). It fails by not compiling.
 * [F63] [F68] [F81] */
#include <fa.h>
#include <stddef.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define HOLDS(condition) typedef char JOIN(holds_on_line_, __LINE__)[(condition) ? 1 : -1]
#define AT(type, field, offset) HOLDS(offsetof(type, field) == (offset))

HOLDS(sizeof(void *) == 8);

HOLDS(sizeof(fa_tensor) == 80);
AT(fa_tensor, data, 0);
AT(fa_tensor, shape, 8);
AT(fa_tensor, stride, 40);
AT(fa_tensor, dtype, 72);
AT(fa_tensor, reserved, 76);

HOLDS(sizeof(fa_desc) == 120);
AT(fa_desc, struct_size, 0);
AT(fa_desc, device, 8);
AT(fa_desc, device_index, 12);
AT(fa_desc, dtype_q, 16);
AT(fa_desc, dtype_kv, 20);
AT(fa_desc, dtype_out, 24);
AT(fa_desc, mask, 28);
AT(fa_desc, head_dim, 32);
AT(fa_desc, head_dim_v, 40);
AT(fa_desc, window_left, 48);
AT(fa_desc, window_right, 56);
AT(fa_desc, attention_chunk, 64);
AT(fa_desc, softmax_scale, 72);
AT(fa_desc, softcap, 76);
AT(fa_desc, flags, 80);
AT(fa_desc, num_threads, 84);
AT(fa_desc, parallel_for, 88);
AT(fa_desc, parallel_for_user, 96);
AT(fa_desc, dtype_v, 104);
AT(fa_desc, dtype_k_rope, 108);
AT(fa_desc, head_dim_rope, 112);

AT(fa_forward_args, struct_size, 0);
AT(fa_forward_args, q, 8);
AT(fa_forward_args, k, 88);
AT(fa_forward_args, v, 168);
AT(fa_forward_args, out, 248);
AT(fa_forward_args, lse, 328);
AT(fa_forward_args, bias, 408);
AT(fa_forward_args, mask, 488);
AT(fa_forward_args, alibi_slopes, 568);
AT(fa_forward_args, sinks, 648);
AT(fa_forward_args, block_table, 728);
AT(fa_forward_args, cu_seqlens_q, 808);
AT(fa_forward_args, cu_seqlens_k, 816);
AT(fa_forward_args, seqused_q, 824);
AT(fa_forward_args, seqused_k, 832);
AT(fa_forward_args, leftpad_k, 840);
AT(fa_forward_args, kv_batch_idx, 848);
AT(fa_forward_args, q_offset, 856);
AT(fa_forward_args, num_seqs, 864);
AT(fa_forward_args, max_seqlen_q, 872);
AT(fa_forward_args, max_seqlen_k, 880);
AT(fa_forward_args, num_splits, 888);
AT(fa_forward_args, reserved, 892);
AT(fa_forward_args, workspace, 896);
AT(fa_forward_args, workspace_size, 904);
AT(fa_forward_args, stream, 912);
AT(fa_forward_args, k_scale, 920);
AT(fa_forward_args, v_scale, 1000);
AT(fa_forward_args, k_zero, 1080);
AT(fa_forward_args, v_zero, 1160);
AT(fa_forward_args, tree_mask, 1240);
AT(fa_forward_args, tree_depth, 1320);
AT(fa_forward_args, k_rope, 1400);
HOLDS(sizeof(fa_forward_args) == 1480);

AT(fa_backward_args, struct_size, 0);
AT(fa_backward_args, q, 8);
AT(fa_backward_args, k, 88);
AT(fa_backward_args, v, 168);
AT(fa_backward_args, out, 248);
AT(fa_backward_args, lse, 328);
AT(fa_backward_args, dout, 408);
AT(fa_backward_args, dq, 488);
AT(fa_backward_args, dk, 568);
AT(fa_backward_args, dv, 648);
AT(fa_backward_args, dlse, 728);
AT(fa_backward_args, delta, 808);
AT(fa_backward_args, bias, 888);
AT(fa_backward_args, mask, 968);
AT(fa_backward_args, alibi_slopes, 1048);
AT(fa_backward_args, sinks, 1128);
AT(fa_backward_args, block_table, 1208);
AT(fa_backward_args, dbias, 1288);
AT(fa_backward_args, dsinks, 1368);
AT(fa_backward_args, cu_seqlens_q, 1448);
AT(fa_backward_args, cu_seqlens_k, 1456);
AT(fa_backward_args, seqused_q, 1464);
AT(fa_backward_args, seqused_k, 1472);
AT(fa_backward_args, leftpad_k, 1480);
AT(fa_backward_args, kv_batch_idx, 1488);
AT(fa_backward_args, q_offset, 1496);
AT(fa_backward_args, num_seqs, 1504);
AT(fa_backward_args, max_seqlen_q, 1512);
AT(fa_backward_args, max_seqlen_k, 1520);
AT(fa_backward_args, accumulate, 1528);
AT(fa_backward_args, reserved, 1532);
AT(fa_backward_args, workspace, 1536);
AT(fa_backward_args, workspace_size, 1544);
AT(fa_backward_args, stream, 1552);
HOLDS(sizeof(fa_backward_args) == 1560);

AT(fa_merge_args, struct_size, 0);
AT(fa_merge_args, outs, 8);
AT(fa_merge_args, lses, 16);
AT(fa_merge_args, num_parts, 24);
AT(fa_merge_args, flags, 28);
AT(fa_merge_args, out, 32);
AT(fa_merge_args, lse, 112);
AT(fa_merge_args, mask, 192);
AT(fa_merge_args, workspace, 272);
AT(fa_merge_args, workspace_size, 280);
AT(fa_merge_args, stream, 288);
HOLDS(sizeof(fa_merge_args) == 296);
AT(fa_append_args, struct_size, 0);
AT(fa_append_args, k, 8);
AT(fa_append_args, v, 88);
AT(fa_append_args, k_cache, 168);
AT(fa_append_args, v_cache, 248);
AT(fa_append_args, k_scale, 328);
AT(fa_append_args, v_scale, 408);
AT(fa_append_args, k_zero, 488);
AT(fa_append_args, v_zero, 568);
AT(fa_append_args, q, 648);
AT(fa_append_args, q_out, 728);
AT(fa_append_args, rotary_cos, 808);
AT(fa_append_args, rotary_sin, 888);
AT(fa_append_args, positions, 968);
AT(fa_append_args, q_positions, 1048);
AT(fa_append_args, slot_mapping, 1128);
AT(fa_append_args, block_table, 1208);
AT(fa_append_args, cu_seqlens_new, 1288);
AT(fa_append_args, seqused_new, 1296);
AT(fa_append_args, cache_seqlens, 1304);
AT(fa_append_args, leftpad_k, 1312);
AT(fa_append_args, kv_batch_idx, 1320);
AT(fa_append_args, num_seqs, 1328);
AT(fa_append_args, max_seqlen_new, 1336);
AT(fa_append_args, flags, 1344);
AT(fa_append_args, reserved, 1348);
AT(fa_append_args, workspace, 1352);
AT(fa_append_args, workspace_size, 1360);
AT(fa_append_args, stream, 1368);
AT(fa_append_args, k_rope, 1376);
AT(fa_append_args, k_rope_cache, 1456);
HOLDS(sizeof(fa_append_args) == 1536);

HOLDS(sizeof(fa_kernel) == 56);
AT(fa_kernel, struct_size, 0);
AT(fa_kernel, name, 8);
AT(fa_kernel, device, 16);
AT(fa_kernel, arch, 24);
AT(fa_kernel, compute_dtypes, 32);
AT(fa_kernel, available, 40);
AT(fa_kernel, num_backward, 44);
AT(fa_kernel, unavailable_reason, 48);

HOLDS(sizeof(fa_status) == 4);
HOLDS(sizeof(fa_dtype) == 4);
HOLDS(sizeof(fa_device) == 4);
HOLDS(sizeof(fa_mask) == 4);

HOLDS(FA_OK == 0);
HOLDS(FA_ERROR_INVALID_ARGUMENT == 1);
HOLDS(FA_ERROR_UNSUPPORTED == 2);
HOLDS(FA_ERROR_NO_DEVICE == 3);
HOLDS(FA_ERROR_OUT_OF_MEMORY == 4);
HOLDS(FA_ERROR_DRIVER == 5);
HOLDS(FA_DTYPE_DEFAULT == 0);
HOLDS(FA_F32 == 1);
HOLDS(FA_F16 == 2);
HOLDS(FA_BF16 == 3);
HOLDS(FA_BOOL == 4);
HOLDS(FA_I32 == 5);
HOLDS(FA_I64 == 6);
HOLDS(FA_I8 == 7);
HOLDS(FA_E4M3 == 8);
HOLDS(FA_E5M2 == 9);
HOLDS(FA_I4 == 10);
HOLDS(FA_U4 == 11);
HOLDS(FA_Q8_0 == 12);
HOLDS(FA_Q4_0 == 13);
HOLDS(FA_DEVICE_AUTO == 0);
HOLDS(FA_DEVICE_CPU == 1);
HOLDS(FA_DEVICE_CUDA == 2);
HOLDS(FA_MASK_NONE == 0);
HOLDS(FA_MASK_CAUSAL == 1);
HOLDS(FA_MASK_CAUSAL_TOP_LEFT == 2);
HOLDS(FA_FLAG_NONDETERMINISTIC == 1);
HOLDS(FA_FLAG_BATCH_INVARIANT == 2);
HOLDS(FA_FLAG_BIAS_BEFORE_SOFTCAP == 4);
HOLDS(FA_FLAG_HADAMARD_K == 8);
HOLDS(FA_FLAG_HADAMARD_V == 16);
HOLDS(FA_FLAG_DEVICE_POINTERS == 32);
HOLDS(FA_ACCUMULATE_DQ == 1);
HOLDS(FA_ACCUMULATE_DK == 2);
HOLDS(FA_ACCUMULATE_DV == 4);
HOLDS(FA_ACCUMULATE_DBIAS == 8);
HOLDS(FA_ACCUMULATE_DSINKS == 16);
HOLDS(FA_MERGE_BASE_2 == 1);
HOLDS(FA_MAX_PARTS == 32);
HOLDS(FA_APPEND_COMPUTE_SCALES == 1);
HOLDS(FA_APPEND_ROTARY_INTERLEAVED == 2);
HOLDS(FA_APPEND_ROTARY_TAIL == 4);

#if FA_ABI_VERSION != 0
#error "a new ABI version: a new soname, a new list, new numbers here"
#endif

int main(void) { return fa_version() == FA_VERSION_MAJOR * 10000 + FA_VERSION_MINOR * 100 + FA_VERSION_PATCH ? 0 : 1; }
