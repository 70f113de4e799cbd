// The trees of new tokens of a case. Bits that mean nothing are 1 at random, rows of no sequence have all of them and
// impossible depths.
#include <algorithm>
#include <climits>
#include <vector>

#include "reference/instance.h"
#include "reference/random.h"

namespace reference {
namespace {

enum Stream : uint64_t { for_parents = 101, for_bits };

enum class Kind { tree, path, any };

Kind kind_of(const std::string &words) {
  const std::string kind = words.substr(words.find(':') + 1);
  return kind == "tree" ? Kind::tree : kind == "path" ? Kind::path : Kind::any;
}

/// The parent of each token, -1 of a root: mostly one of the last few.
std::vector<int64_t> parents(Kind kind, int64_t tokens, uint64_t seed) {
  std::vector<int64_t> parent;
  for (int64_t i = 0; i < tokens; ++i) {
    const uint64_t bits = hash(seed, for_parents, uint64_t(i));
    const int64_t back = kind == Kind::path ? 1 : 1 + int64_t(bits % 5);
    parent.push_back(bits / 5 % 9 == 0 && kind != Kind::path ? -1 : std::max<int64_t>(-1, i - back));
  }
  return parent;
}

/// The bits of each token of a tree: its ancestors and itself.
std::vector<std::vector<bool>> ancestors(const std::vector<int64_t> &parent) {
  std::vector<std::vector<bool>> all;
  for (size_t i = 0; i < parent.size(); ++i) {
    all.push_back(parent[i] < 0 ? std::vector<bool>(parent.size()) : all[size_t(parent[i])]);
    all.back()[i] = true;
  }
  return all;
}

/// A word of a token's bits; those that mean nothing, and all of Kind::any, follow from `random`.
int32_t word_of(const std::vector<bool> &bits, Kind kind, size_t word, uint64_t random) {
  uint32_t result = 0;
  for (size_t n = 0; n < 32; ++n) {
    const size_t at = 32 * word + n;
    const bool bit = at >= bits.size() || kind == Kind::any ? random >> n & 1 : bits[at];
    result |= uint32_t(bit) << n;
  }
  return int32_t(result);
}

std::vector<int64_t> depths(Kind kind, const std::vector<int64_t> &parent, uint64_t seed) {
  std::vector<int64_t> depth;
  for (size_t i = 0; i < parent.size(); ++i) {
    const int64_t below = parent[i] < 0 ? 0 : depth[size_t(parent[i])] + 1;
    depth.push_back(kind == Kind::any ? int64_t(hash(seed, for_bits, i) % parent.size()) : below);
  }
  return depth;
}

}  // namespace

void Instance::make_tree(Guard guard) {
  const Kind kind = kind_of(c.tree);
  const std::string kept = c.tree.substr(0, c.tree.find(':'));
  const auto has = [&](const std::string &dimensions, char letter) {
    return dimensions.find(letter) != std::string::npos;
  };
  const bool own_bits = !c.cu_q && has(kept, 'b'), own_depths = !c.cu_q && c.depths == "b";  // a batch entry's
  const int64_t rows = q.shape()[1], heads = has(kept, 'h') ? c.hq : 1, words = std::max<int64_t>(1, (c.sq + 31) / 32);
  tree_mask = Tensor({own_bits ? c.b : 1, heads, rows, words}, FA_I32, gapped(c.q_layout), guard);
  tree_mask.each([&](int64_t b, int64_t h, int64_t i, int64_t w, int64_t) { tree_mask.set(b, h, i, w, -1); });
  if (!c.depths.empty()) tree_depth = Tensor({own_depths ? c.b : 1, rows, 1, 1}, FA_I32, gapped(c.q_layout), guard);
  tree_depth.each([&](int64_t b, int64_t i, int64_t, int64_t, int64_t) { tree_depth.set(b, i, 0, 0, INT_MAX); });

  for (int64_t b = 0; b < c.b; ++b) {
    const int64_t first = c.cu_q ? cu_seqlens_q[size_t(b)] : 0;
    const int64_t tokens = c.used_q ? seqused_q[size_t(b)] : c.cu_q ? cu_seqlens_q[size_t(b) + 1] - first : rows;
    const auto seed_of = [&](bool own, int64_t head) {
      return hash(c.seed, own || c.cu_q ? uint64_t(b) : 0, uint64_t(head));
    };
    for (int64_t h = 0; h < heads; ++h) {
      const uint64_t seed = seed_of(own_bits, h);
      const std::vector<std::vector<bool>> bits = ancestors(parents(kind, tokens, seed));
      for (int64_t i = 0; i < tokens; ++i)
        for (int64_t w = 0; w < words; ++w)
          tree_mask.set(own_bits ? b : 0, h, first + i, w,
                        word_of(bits[size_t(i)], kind, size_t(w), hash(seed, for_bits, uint64_t(i * words + w))));
    }
    if (!tree_depth) continue;
    const uint64_t seed = seed_of(own_depths, 0);
    const std::vector<int64_t> depth = depths(kind, parents(kind, tokens, seed), seed);
    for (int64_t i = 0; i < tokens; ++i) tree_depth.set(own_depths ? b : 0, first + i, 0, 0, double(depth[size_t(i)]));
  }
}

}  // namespace reference
