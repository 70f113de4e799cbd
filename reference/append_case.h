// One case of fa_append, and its form as a line of text, which a failure prints.
#pragma once

#include <fa.h>

#include <string>

#include "reference/tensor.h"

namespace reference {

/// The arrays that give the rows of new tokens in the cache: none, block_table, or slot_mapping of 32 or 64 bits.
enum class CacheAddressing { rows, pages, slots32, slots64 };

/// Which positions of the rotary tables are given.
enum class PositionType { none, i32, i64 };

/// Everything that decides a call. Contents follow from the sizes and the seed.
struct AppendCase {
  int64_t b = 2, sn = 3, hkv = 2, d = 64, dv = 0;  // dv 0: as d
  int64_t rope = 0;                                // the last elements of keys that k_rope has
  fa_dtype k_rope_cache = FA_DTYPE_DEFAULT;        // their type in the cache: as q
  int64_t rows = 40;                               // of a sequence in the cache
  fa_dtype q = FA_F32, k = FA_DTYPE_DEFAULT, v = FA_DTYPE_DEFAULT, cache = FA_DTYPE_DEFAULT;  // k and v: as q
  fa_dtype v_cache = FA_DTYPE_DEFAULT;                                                        // as cache
  std::string kscale, vscale, kzero, vzero;  // of quantised caches, as Case has them: "f32:bsh:4"
  bool computed = false;                     // they are written
  uint32_t flags = 0;                        // FA_FLAG_HADAMARD_*

  bool packed = false, used = false, lens = false, leftpad = false, batch_idx = false, bounds = false;
  bool keys_alone = false;  // no v
  CacheAddressing addressing = CacheAddressing::rows;
  int64_t page = 8;
  int64_t skipped = 0;    // of slots: one of this many is negative
  bool repeated = false;  // some tokens have one row

  int64_t pairs = 0;  // rotary; 0: none
  bool interleaved = false, tail = false;
  fa_dtype table = FA_F32;
  PositionType positions = PositionType::none, q_positions = PositionType::none;
  int64_t hq = 0, sq = 0;  // 0: no queries; sq 0: as sn
  fa_dtype q_given = FA_DTYPE_DEFAULT;
  bool in_place = false;  // q_out is q

  Layout k_layout = Layout::bshd, v_layout = Layout::bshd, q_layout = Layout::bshd;
  Layout k_cache_layout = Layout::bshd, v_cache_layout = Layout::bshd, q_out_layout = Layout::bshd;
  bool special = false;  // some numbers are NaN, infinite, subnormal or as large as their type has them
  int32_t threads = 1;
  uint64_t seed = 1;

  int64_t dim_v() const { return dv ? dv : d; }
  int64_t queries() const { return sq ? sq : sn; }
  fa_dtype k_type() const { return k ? k : q; }
  fa_dtype v_type() const { return v ? v : q; }
  fa_dtype cache_type() const { return cache ? cache : q; }
  fa_dtype v_cache_type() const { return v_cache ? v_cache : cache_type(); }
  fa_dtype k_rope_cache_type() const { return k_rope_cache ? k_rope_cache : q; }
  fa_dtype q_type() const { return q_given ? q_given : q; }
};

/// "b=2 sn=3 ...": the differences from the defaults, and the sizes always.
std::string to_text(const AppendCase &c);

}  // namespace reference
