// One case of the test suite: the sizes and features of a call, as one line of text and back, so that a failure prints
// a line that repeats it.
#pragma once

#include <fa.h>

#include <string>

#include "reference/tensor.h"

namespace reference {

/// The words of optional tensors that have a number a head, WORD(word, field): "h" or "bh", the dimensions that are not
/// repeated.
#define FA_PER_HEAD_WORDS(WORD) \
  WORD(alibi, alibi_slopes)     \
  WORD(sinks, sinks)

/// Everything that decides a call. The contents of tensors and arrays follow from the sizes and the seed.
struct Case {
  int64_t b = 1, sq = 16, sk = 16, hq = 1, hkv = 1, d = 64, dv = 0;  // dv 0: as d
  int64_t rope = 0;                                                  // the last elements of keys that k_rope has
  fa_dtype krope = FA_DTYPE_DEFAULT;                                 // its type: as q
  fa_dtype q = FA_F32, kv = FA_DTYPE_DEFAULT, v = FA_DTYPE_DEFAULT, out = FA_DTYPE_DEFAULT;
  fa_mask mask = FA_MASK_NONE;
  int64_t window_left = -1, window_right = -1, chunk = 0;
  double scale = 0, softcap = 0;
  uint32_t flags = 0;

  bool cu_q = false, cu_k = false;  // packed; sequences of up to sq and sk rows
  bool used_q = false, used_k = false, leftpad = false, batch_idx = false, offset = false;
  int64_t page = 0;  // page size; 0: not paged

  // Optional tensors: the type ("f32", ...), then the dimensions that are not repeated, of "bhqk": "f16:hk".
  std::string bias;
  std::string boolmask;  // dimensions only: "bqk"; "none" repeats all of them
  bool lse = true;

  // Scales and zeros of quantised k and v: the type, the dimensions that are not repeated, of "bsh", and the groups of
  // channels, 0 for one each: "f16:bh:4". Those of "bsh" are key/value rows as k has them.
  std::string kscale, vscale, kzero, vzero;

  // The tree of new tokens: the dimensions that are not repeated, of "bh", and its kind, "tree", "path" (without
  // branches) or "any" (bits at random): "bh:tree". Of their depths: the dimensions alone, "b" or "none".
  std::string tree, depths;

  int32_t splits = 0, threads = 1;
  bool workspace = false;  // the caller's
  bool bounds = false;     // max_seqlen_q and max_seqlen_k given where they need not be
  std::string fenv;        // the caller's floating-point environment (reference/caller.h)

  Layout q_layout = Layout::bshd, k_layout = Layout::bshd, v_layout = Layout::bshd, out_layout = Layout::bshd;
  double amp = 1, k_amp = 1;  // of q and k: large ones make few keys matter
  double v_amp = 1;           // of v; when it is not 1, every other value is 0, so that small weights count
  std::string subnormal;      // the tensors of numbers below their type's normal ones: of "qkvbasd"
  bool special = false;       // some values are NaN or infinite
  bool far = false;           // q_offset is at the ends of its range
  bool padded = false;        // a part of the bias is as low as finite numbers go, as in masks of models
  // The backward pass, of which the fields above are the inputs. out and lse are the oracle's.
  bool backward = false;
  bool chained = false;  // they are those of the kernel's own forward pass, and gradients are judged from end to end
  std::string grads = "qkv";        // which of dq, dk and dv are computed
  std::string dbias;                // the dimensions of "bhqk" that are not summed; "none"; "": not computed
  std::string dsinks;               // "h" or "bh"
  bool dlse = false;                // given
  bool delta = false;               // given, and out is not
  std::string accumulate = "none";  // the gradients that are added to: of "qkvbs"
  fa_dtype dout = FA_DTYPE_DEFAULT, dq = FA_DTYPE_DEFAULT, dk = FA_DTYPE_DEFAULT, dv_type = FA_DTYPE_DEFAULT;
  fa_dtype dbias_type = FA_DTYPE_DEFAULT;
  Layout dout_layout = Layout::bshd, grad_layout = Layout::bshd;
  double dout_amp = 1;
  bool dout_ends = false;  // some of dout are the largest and the smallest numbers of its type, or subnormal
  int32_t dout_fall = 0;   // of every three rows of dout and dlse, each is 2^-dout_fall of the one before it

  uint64_t seed = 1;

  int64_t dim_v() const { return dv ? dv : d; }
  fa_dtype kv_type() const { return kv ? kv : q; }
  fa_dtype v_type() const { return v ? v : kv_type(); }
  fa_dtype krope_type() const { return krope ? krope : q; }
  fa_dtype out_type() const { return out ? out : q; }

#define FA_WORD(word, field) std::string word;
  FA_PER_HEAD_WORDS(FA_WORD)
#undef FA_WORD
};

/// "b=2 sq=65 ...": the differences from the defaults, and the sizes always.
std::string to_text(const Case &c);

/// Reads the text of to_text, keys in any order. Stores the error in *error, or "".
Case case_from_text(const std::string &text, std::string *error);

/// "f32" and back; FA_DTYPE_DEFAULT for other names.
const char *name_of(fa_dtype dtype);
fa_dtype dtype_named(const std::string &name);

}  // namespace reference
