// The attention kernels of kernels/tensor_attention.cuh, launched over TMA tiles and held to sums in double.
#pragma once

#include <cmath>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "client.h"
#include "exec/tensor_map.h"
#include "tensor_layout.h"

namespace emulated::attention {

constexpr int head_size = 64;

struct alignas(64) Map {
  uint8_t bytes[fa::emu::tensor_map_bytes];
};

/// As the kernels' own.
struct Sizes {
  int keys, rows;
  float scale;
};

/// Tiles of 64 rows of a tensor of (64, rows, heads) halves, in lines of 128 swizzled bytes.
inline Map tiles_of(CUdeviceptr address, int rows, int heads) {
  Map map;
  uint64_t extents[] = {head_size, static_cast<uint64_t>(rows), static_cast<uint64_t>(heads)};
  uint64_t strides[] = {head_size * 2, static_cast<uint64_t>(rows) * head_size * 2};
  uint32_t box[] = {head_size, 64, 1}, steps[] = {1, 1, 1};
  std::string wrong =
      fa::emu::encode_tiled(&map, static_cast<uint32_t>(fa::emu::TensorType::f16), 3, reinterpret_cast<void *>(address),
                            extents, strides, box, steps, 0, 3, 0, 0);
  if (!wrong.empty()) throw std::runtime_error(wrong);
  return map;
}

/// Runs the folder's kernel for the device, wgmma or tcgen05; further are parameters behind the kernel's own. The
/// greatest difference to the sums, or infinity where the launch fails.
template <class... Further>
double error(const std::string &folder, int rows, int keys, int heads, Further... further) {
  start();
  bool hopper = capability() == 90;
  CUfunction function = kernel(
      read_file(folder + (hopper ? "/wgmma_attention.sm_90a.ptx" : "/tcgen05_attention.sm_100a.ptx")), "attention");
  std::mt19937 random(11);
  auto tensor = [&](int count) {
    std::vector<uint16_t> all(static_cast<size_t>(count) * heads * head_size);
    // Halves of up to 2.
    for (uint16_t &one : all) one = static_cast<uint16_t>((random() & 0x83ff) | (0x30 + random() % 16) << 8);
    return all;
  };
  std::vector<uint16_t> q = tensor(rows), k = tensor(keys), v = tensor(keys);
  Array<uint16_t> dq(q), dk(k), dv(v), out(std::vector<uint16_t>(q.size(), 0x7e00));
  float scale = 0.125f;
  unsigned shared = hopper ? 5 * 8192 : 4 * 8192, per_block = hopper ? 64 : 128;
  call("cuFuncSetAttribute", function, 8, static_cast<int>(shared));
  CUresult result =
      launch(function, {(static_cast<unsigned>(rows) + per_block - 1) / per_block, unsigned(heads)},
             {hopper ? 256u : 128u}, shared, tiles_of(dq.address, rows, heads), tiles_of(dk.address, keys, heads),
             tiles_of(dv.address, keys, heads), out.address, Sizes{keys, rows, scale * 1.44269504f}, further...);
  if (result != CUDA_SUCCESS) return INFINITY;
  std::vector<uint16_t> got = out.values();
  auto value = [](const std::vector<uint16_t> &x, int row, int column) {
    return ::tensor::f16.value(x[static_cast<size_t>(row * head_size + column)]);
  };
  double worst = 0;
  for (int head = 0; head < heads; head++)
    for (int row = 0; row < rows; row += 3) {
      std::vector<double> weights(keys), expected(head_size);
      double sum = 0;
      for (int j = 0; j < keys; j++) {
        double score = 0;
        for (int x = 0; x < head_size; x++) score += value(q, head * rows + row, x) * value(k, head * keys + j, x);
        sum += weights[j] = std::exp(score * scale);
      }
      for (int j = 0; j < keys; j++)
        for (int x = 0; x < head_size; x++) expected[x] += weights[j] / sum * value(v, head * keys + j, x);
      for (int x = 0; x < head_size; x++) {
        double difference = std::abs(expected[x] - value(got, head * rows + row, x));
        worst = difference <= worst ? worst : difference;
      }
    }
  return worst;
}

}  // namespace emulated::attention
