#include "perf/dram/calls.h"

#include <algorithm>
#include <sstream>

#include "cuda/tickets.h"
#include "forward/combine/tiles.h"
#include "forward/mma/tiles.h"
#include "forward/tcgen05/tiles.h"
#include "forward/wgmma/tiles.h"

namespace fa::dram {
namespace {

constexpr int image_dims[] = {32, 64, 96, 128, 192, 256};

const kernels::Arch &arch_of(int number) {
  return *std::find_if(std::begin(kernels::archs), std::end(kernels::archs),
                       [&](const kernels::Arch &arch) { return arch.number == number; });
}

int image_dim(int64_t dim) {
  return *std::find_if(std::begin(image_dims), std::end(image_dims), [&](int of_image) { return of_image >= dim; });
}

/// A family without maps of tensors, which a driver encodes: nothing is read here.
template <const kernels::Family &family>
constexpr kernels::TileConfig tile_without_maps(const kernels::Arch &arch, int dim, kernels::Entry entry) {
  kernels::TileConfig tile = family.tile(arch, dim, entry);
  tile.box_keys = 0;
  return tile;
}
template <const kernels::Family &family>
constexpr kernels::Family unmapped = {tile_without_maps<family>, family.compute_dtype, family.unsupported_reason,
                                      family.unsupported_call_reason, false};

bool has_tensor_memory(const Gpu &gpu) {
  return gpu.sm == 100;
}

/// Rows of heads, at separate addresses: nothing is read.
View rows_of(int tensor, int64_t rows, int64_t heads, int64_t dim) {
  View view;
  view.data = reinterpret_cast<char *>(static_cast<uintptr_t>(tensor) << 44);
  view.dtype = FA_F16;
  view.stride[3] = 2, view.stride[2] = 2 * dim, view.stride[1] = heads * view.stride[2];
  view.stride[0] = rows * view.stride[1];
  return view;
}

}  // namespace

cuda::Device Gpu::device() const {
  cuda::Device device = {};
  device.capability = sm;
  device.sm_count = sms;
  device.shared_per_block = arch_of(sm).shared_bytes;
  device.shared_per_sm = shared_per_sm;
  device.threads_per_sm = threads_per_sm;
  device.l2_bytes = static_cast<int>(l2_bytes);
  device.memory_rate = bandwidth / clock / sms;
  return device;
}

std::string Call::text() const {
  std::ostringstream text;
  if (lengths.empty()) text << batch << " x ";
  text << heads_q;
  if (heads_kv != heads_q) text << "/" << heads_kv;
  text << " heads, ";
  if (!lengths.empty()) {
    const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
    text << lengths.size() << " packed of " << *least << " to " << *most;
  } else {
    if (rows_q != rows_k) text << rows_q << " of ";
    text << rows_k;
  }
  text << " rows, hd" << dim;
  if (dim_v > 0) text << "/" << dim_v;
  if (causal) text << ", causal";
  if (splits > 0) text << ", " << splits << " splits";
  if (page > 0) text << ", pages of " << page;
  if (softcap > 0) text << ", softcap";
  if (alibi) text << ", ALiBi";
  if (bias) text << ", bias";
  return text.str();
}

Planned::Planned(const Call &c)
    : images_{has_tensor_memory(c.gpu)
                  ? cuda::Image{"", &arch_of(c.gpu.sm), "tcgen05", &unmapped<kernels::tcgen05::family>, kernels::f16,
                                image_dim(c.dim), nullptr}
                  : cuda::Image{"", &arch_of(c.gpu.sm), "wgmma", &unmapped<kernels::wgmma::family>, kernels::f16,
                                image_dim(c.dim), nullptr},
              {"", &arch_of(c.gpu.sm), "mma", &kernels::mma::family, kernels::f16, image_dim(c.dim), nullptr},
              {"", &arch_of(c.gpu.sm), "combine", &kernels::combine::family, kernels::f32, 576, nullptr}} {
  attention_.q_dtype = attention_.kv_dtype = attention_.out_dtype = FA_F16;
  const int64_t dim_v = c.dim_v > 0 ? c.dim_v : c.dim;
  attention_.head_dim = c.dim, attention_.head_dim_v = dim_v;
  attention_.scale = 0.125f;
  attention_.mask = c.causal ? FA_MASK_CAUSAL : FA_MASK_NONE;
  ForwardCall &p = problem_;
  p.attention = &attention_;
  p.batch = c.batch, p.heads_q = c.heads_q, p.heads_kv = c.heads_kv;
  p.rows_q = p.max_seqlen_q = c.rows_q, p.rows_k = p.max_seqlen_k = c.rows_k;
  p.num_splits = c.splits;
  if (!c.lengths.empty()) {
    cumulative_ = {0};
    for (const int32_t length : c.lengths) cumulative_.push_back(cumulative_.back() + length);
    p.batch = static_cast<int64_t>(c.lengths.size());
    p.rows_q = p.rows_k = cumulative_.back();
    p.max_seqlen_q = p.max_seqlen_k = *std::max_element(c.lengths.begin(), c.lengths.end());
    p.cu_seqlens_q = p.cu_seqlens_k = cumulative_.data();
  }
  p.q = rows_of(1, p.rows_q, p.heads_q, c.dim), p.out = rows_of(2, p.rows_q, p.heads_q, dim_v);
  p.k = rows_of(3, p.rows_k, p.heads_kv, c.dim), p.v = rows_of(4, p.rows_k, p.heads_kv, dim_v);
  if (c.page > 0) set_pages(c);
  set_features(c);
  const cuda::KernelSet kernels = c.warpgroups ? cuda::KernelSet{{&images_[0], &images_[1]}, 2, &images_[2]}
                                               : cuda::KernelSet{{&images_[1]}, 1, &images_[2]};
  plan = cuda::plan_of(p, kernels, c.gpu.device());
  if (plan.kernel().image == &images_[0]) set_hand_out(c);
  plan.workspace.bind(reinterpret_cast<char *>(uintptr_t{5} << 44), &plan.params);
}

/// As the family has it, which planned without its maps.
void Planned::set_hand_out(const Call &c) {
  const bool takes_over = has_tensor_memory(c.gpu);
  images_[0].family = takes_over ? &kernels::tcgen05::family : &kernels::wgmma::family;
  for (cuda::LaunchLoop &loop : plan.loop) loop.kernels[0].takes_over = takes_over;
  cuda::add_tickets(problem_, c.gpu.device(), &plan);
}

/// Each sequence's pages are consecutive.
void Planned::set_pages(const Call &c) {
  ForwardCall &p = problem_;
  const int64_t width = (p.max_seqlen_k + c.page - 1) / c.page;
  for (int64_t page = 0; page < p.batch * width; page++) pages_.push_back(static_cast<int32_t>(page));
  p.page_size = c.page;
  p.batch_k = p.batch * width, p.rows_k = width * c.page;
  p.block_table.data = reinterpret_cast<char *>(pages_.data());
  p.block_table.dtype = FA_I32;
  p.block_table.stride[0] = width * int64_t{sizeof(int32_t)}, p.block_table.stride[1] = sizeof(int32_t);
  for (View *rows : {&p.k, &p.v}) rows->stride[0] = c.page * rows->stride[1];
}

void Planned::set_features(const Call &c) {
  ForwardCall &p = problem_;
  attention_.softcap = c.softcap;
  if (c.alibi) {
    p.alibi_slopes.data = reinterpret_cast<char *>(&slope_);
    p.alibi_slopes.dtype = FA_F32;
  }
  if (!c.bias) return;
  p.bias = rows_of(6, p.max_seqlen_q, 1, p.max_seqlen_k);
  p.bias.stride[0] = p.bias.stride[1] = 0;  // (batch, head, query, key)
}

}  // namespace fa::dram
