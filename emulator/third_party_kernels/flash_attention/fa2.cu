// Runs FlashAttention 2's kernels, forward and backward, without torch, and compares them with attention in double
// precision. Compiled with -DHEADDIM=64 -DCAUSAL=1 -DBACKWARD=1, and include paths to a checkout's csrc/flash_attn/src
// and to CUTLASS.
#include "attention.h"
// FlashAttention's headers; their order does not matter.
#include "flash_fwd_launch_template.h"
#if BACKWARD
#include "flash_bwd_launch_template.h"
#endif

using T = cutlass::half_t;

#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)

template <typename Params>
void describe(Params &params, const Problem &p) {
  params.b = p.batch, params.h = params.h_k = p.heads, params.h_h_k_ratio = 1;
  params.seqlen_q = p.queries, params.seqlen_k = p.keys;
  params.seqlen_q_rounded = (p.queries + 127) / 128 * 128, params.seqlen_k_rounded = (p.keys + 127) / 128 * 128;
  params.d = params.d_rounded = p.dim;
  params.q_row_stride = params.k_row_stride = params.v_row_stride = params.o_row_stride = int64_t(p.heads) * p.dim;
  params.q_head_stride = params.k_head_stride = params.v_head_stride = params.o_head_stride = p.dim;
  params.q_batch_stride = params.o_batch_stride = params.q_row_stride * p.queries;
  params.k_batch_stride = params.v_batch_stride = params.k_row_stride * p.keys;
  params.scale_softmax = float(p.scale()), params.scale_softmax_log2 = float(p.scale() * M_LOG2E);
  params.p_dropout = params.rp_dropout = 1, params.p_dropout_in_uint8_t = 255;
  params.scale_softmax_rp_dropout = params.scale_softmax;
  params.window_size_left = -1, params.window_size_right = p.causal ? 0 : -1;
  params.is_causal = p.causal, params.is_seqlens_k_cumulative = true;
}

int main(int argc, char **argv) {
  const Problem p = problem_of(argc, argv);
  auto q = values<T>(p.q_size(), 1), k = values<T>(p.k_size(), 2), v = values<T>(p.k_size(), 3);
  Device<T> dev_q(q), dev_k(k), dev_v(v), dev_o(p.q_size());
  bool good = true;
#if BACKWARD
  auto go = values<T>(p.q_size(), 4);
  const Expected e = reference(p, q, k, v, go);
  std::vector<T> o(e.o.size());
  for (size_t i = 0; i < o.size(); i++) o[i] = T(float(e.o[i]));
  flash::Flash_bwd_params params{};
  describe(params, p);
  const size_t rounded = size_t(p.batch) * p.heads * params.seqlen_q_rounded;
  Device<T> dev_out(o), dev_go(go), dev_dq(p.q_size()), dev_dk(p.k_size()), dev_dv(p.k_size());
  Device<float> dev_lse(e.lse), accumulated(rounded * p.dim), sums(rounded);
  params.q_ptr = dev_q.at, params.k_ptr = dev_k.at, params.v_ptr = dev_v.at, params.o_ptr = dev_out.at;
  params.softmax_lse_ptr = dev_lse.at, params.do_ptr = dev_go.at;
  params.dq_ptr = dev_dq.at, params.dk_ptr = dev_dk.at, params.dv_ptr = dev_dv.at;
  params.do_row_stride = params.dq_row_stride = params.dk_row_stride = params.dv_row_stride = params.q_row_stride;
  params.do_head_stride = params.dq_head_stride = params.dk_head_stride = params.dv_head_stride = p.dim;
  params.do_batch_stride = params.dq_batch_stride = params.q_batch_stride;
  params.dk_batch_stride = params.dv_batch_stride = params.k_batch_stride;
  params.dq_accum_ptr = accumulated.at, params.dsoftmax_sum = sums.at;
  flash::PASTE(run_mha_bwd_hdim, HEADDIM)<T, CAUSAL>(params, nullptr);
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  good = close("dQ", dev_dq.host(), e.dq, 4e-3) && good;
  good = close("dK", dev_dk.host(), e.dk, 4e-3) && good;
  good = close("dV", dev_dv.host(), e.dv, 4e-3) && good;
#else
  const Expected e = reference(p, q, k, v);
  flash::Flash_fwd_params params{};
  describe(params, p);
  Device<float> dev_lse(e.lse.size());
  params.q_ptr = dev_q.at, params.k_ptr = dev_k.at, params.v_ptr = dev_v.at, params.o_ptr = dev_o.at;
  params.softmax_lse_ptr = dev_lse.at;
  flash::PASTE(run_mha_fwd_hdim, HEADDIM)<T, CAUSAL>(params, nullptr);
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  good = close("O", dev_o.host(), e.o, 2e-3) && good;
  good = close("LSE", dev_lse.host(), e.lse, 1e-3) && good;
#endif
  std::puts(good ? "right" : "WRONG");
  return good ? 0 : 1;
}
