// The list of figures.
#include "figures.h"

#include "core/dtype.h"

namespace fa::bench {
namespace {

/// The kind of this CPU, as far as goals and ceilings depend on it.
struct Machine {
  bool native_bf16 = peak_loop(Peak::bf16).run != nullptr;
  bool tiles = peak_loop(Peak::bf16_amx).run != nullptr;  // no goals: the softmax takes more time than products
  bool avx512 = std::string(peak_loop(Peak::f32).isa) == "avx512";
  bool avx2 = peak_loop(Peak::f32_avx2).run != nullptr;
  double relief = is_zen5() ? 3 : 0;  // twice the FMA rate: whatever is not a product weighs double
};

const char *mask_name(const Case &c) {
  return c.mask == FA_MASK_NONE ? "full" : "causal";
}

std::string size_name(const Case &c) {
  return "/S:" + std::to_string(c.rows_q) + "/D:" + std::to_string(c.head_dim);
}

std::string threads_name(const Case &c) {
  return c.threads == 0 ? "/threads:default" : "/threads:" + std::to_string(c.threads);
}

std::string kv_name(const Case &c) {
  return c.kv_dtype == FA_DTYPE_DEFAULT ? "" : std::string("/kv:") + element_name(c.kv_dtype);
}

const char *cached_name(const Case &c) {
  return c.cold ? "" : "/cached";
}

std::string name_of(const char *group, const Case &c) {
  return std::string(group) + "/" + element_name(c.dtype) + "/" + mask_name(c) + size_name(c) + threads_name(c);
}

class List {
 public:
  std::vector<Figure> take() { return std::move(figures_); }

  void products() {
    for (const fa_mask mask : {FA_MASK_NONE, FA_MASK_CAUSAL}) {
      const bool full = mask == FA_MASK_NONE;
      for (const Case &c : square_shapes(FA_F32, mask)) {
        const double best = full ? 92 : c.rows_q == 1024 ? 88 : 92;
        of_peak(c, full && !machine_.avx512 ? 87 : best);  // 87 is AVX2's goal
      }
      for (const Case &c : square_shapes(FA_BF16, mask)) {
        of_peak(c, machine_.tiles ? 0 : full ? 88 : !machine_.native_bf16 ? 0 : c.rows_q == 1024 ? 83 : 88);
      }
      for (const Case &c : square_shapes(FA_F16, mask)) of_peak(c, full && !machine_.tiles ? 88 : 0);
      for (const fa_dtype dtype : {FA_F32, FA_F16, FA_BF16}) forced(dtype, mask);
    }
  }

  void small() {
    for (const fa_dtype dtype : {FA_F32, FA_BF16}) {
      for (const int64_t rows : {128, 77}) {
        Case c;
        c.dtype = dtype;
        c.rows_q = rows;
        c.head_dim = 64;
        of_peak(c, dtype != FA_F32 ? 0 : rows == 128 ? 80 : 65);
      }
    }
    for (const int threads : {1, 0}) {
      for (const bool own_workspace : {false, true}) {
        Case c;
        c.heads_q = c.heads_kv = c.rows_q = 1;
        c.head_dim = 64;
        c.threads = threads;
        c.own_workspace = own_workspace;
        add({"overhead/f32/1x1x1x64" + threads_name(c) + (own_workspace ? "/workspace:own" : ""),
             Measure::nanoseconds,
             c,
             {},
             Peak::f32,
             1000});
      }
    }
  }

  void backward() {
    for (const fa_dtype dtype : {FA_F32, FA_BF16, FA_F16}) {
      for (const fa_mask mask : {FA_MASK_NONE, FA_MASK_CAUSAL}) {
        const bool full = mask == FA_MASK_NONE;
        for (Case c : square_shapes(dtype, mask)) {
          c.backward = true;
          const bool native = dtype == FA_BF16 && machine_.native_bf16 && !machine_.tiles;
          of_peak(c, dtype == FA_F32 ? full ? 88 : 82 : native && full && c.head_dim == 128 ? 80 : 0);
          if (machine_.avx512 && dtype == FA_F32) {
            c.arch = "avx2";
            add({name_of("backward", c) + "/kernel:avx2", Measure::of_peak, c, {}, Peak::f32_avx2, full ? 82.0 : 78.0});
          }
        }
      }
    }
    backward_threads();
    for (const fa_dtype dtype : {FA_F32, FA_BF16}) {
      for (const int64_t rows : {64, 77, 128, 256}) {
        Case c;
        c.backward = true;
        c.dtype = dtype;
        c.rows_q = rows;
        c.head_dim = 64;
        of_peak(c, 0);
      }
    }
  }

  void layouts() {
    for (const fa_dtype dtype : {FA_F32, FA_BF16}) {
      for (Case c : square_shapes(dtype, FA_MASK_NONE)) {
        c.layout = Layout::bshd;
        of_peak(c, 0, "/layout:bshd");
      }
    }
  }

  void two_threads() {
    for (const fa_dtype dtype : {FA_F32, FA_BF16}) {
      for (const fa_mask mask : {FA_MASK_NONE, FA_MASK_CAUSAL}) {
        for (const Case &one : square_shapes(dtype, mask)) {
          if (one.rows_q != 4096) continue;
          Case two = one;
          two.threads = 2;
          add({name_of("forward", two), Measure::of_twice_one, two, one, peak_of(dtype), percent(90)});
        }
      }
    }
  }

  void head_dims() {
    for (const fa_dtype dtype : {FA_F32, FA_BF16}) {
      for (const int64_t head_dim : {32, 80, 96, 192, 256}) {
        Case reference;
        reference.dtype = dtype;
        Case c = reference;
        c.head_dim = head_dim;
        add({name_of("head_dim", c), Measure::points_below_128, c, reference, peak_of(dtype), 10});
      }
    }
  }

  void features() {
    for (const fa_dtype dtype : {FA_F32, FA_BF16}) {
      Case plain;
      plain.dtype = dtype;
      plain.rows_q = 4096;
      const auto alone = [&](const char *feature, auto change) {
        Case c = plain;
        change(c);
        add({name_of("feature", c) + "/" + feature, Measure::of_plain, c, plain, peak_of(dtype), percent(85)});
      };
      alone("window:1024", [](Case &c) {
        c.mask = FA_MASK_CAUSAL;
        c.window_left = 1024;
      });
      alone("window:1024,1024", [](Case &c) { c.window_left = c.window_right = 1024; });
      alone("softcap", [](Case &c) { c.softcap = 30; });
      alone("alibi", [](Case &c) { c.alibi = true; });
      alone("bias", [](Case &c) { c.bias = true; });
      alone("sinks", [](Case &c) { c.sinks = true; });
    }
  }

  /// Quantised caches under f16 queries: the time of the f16 cache is the reference.
  void decode_codes() {
    for (const fa_dtype kv : {FA_I8, FA_I4, FA_U4, FA_E4M3, FA_E5M2, FA_Q8_0, FA_Q4_0}) {
      for (const int64_t group : {1, 2, 4, 8}) {
        Case c;
        c.dtype = FA_F16;
        c.heads_q = 8 * group;
        c.rows_q = 1;
        c.rows_k = 8192;
        c.cold = true;
        Case plain = c;
        c.kv_dtype = kv;
        const double goal = group > 2 ? 0 : kv == FA_I8 ? 160 : kv == FA_I4 ? 240 : 0;
        add({"decode/f16" + kv_name(c) + "/group:" + std::to_string(group) + "/Sk:8192/D:128" + threads_name(c),
             Measure::of_plain, c, plain, Peak::f32, goal});
      }
    }
  }

  /// New tokens of one sequence, such as drafts, in one call: the time relative to one token's.
  void tokens() {
    for (const fa_dtype dtype : {FA_F32, FA_BF16, FA_F16}) {
      for (const int64_t tokens : {2, 4, 8, 16}) {
        for (const bool codes : {false, true}) {
          if (codes && dtype != FA_F16) continue;
          Case c;
          c.dtype = dtype;
          if (codes) c.kv_dtype = FA_I8;
          c.mask = FA_MASK_CAUSAL;
          c.heads_q = 32;
          c.rows_q = tokens;
          c.rows_k = 8192;
          c.cold = true;
          of_one_token(c);
          c.rows_k = 512;
          c.cold = false;
          if (codes) of_one_token(c);
        }
      }
    }
  }

  /// A chunk of a prompt into caches that come from memory, and a small one into a cache that does not.
  void appends() {
    for (const int threads : {1, 2}) {
      Case c;
      c.append = c.cold = true;
      c.rows_q = 512;
      c.rows_k = 4096;
      c.threads = threads;
      for (const fa_dtype dtype : {FA_F32, FA_BF16}) {
        c.dtype = dtype;
        of_copy(c, 85);
      }
      c.rotary = true;
      of_copy(c, 85, "/rotary");
      c.rotary = false;
      c.layout = Layout::bshd;
      of_copy(c, 0, "/layout:bshd");
      c.layout = Layout::bhsd;
      for (const fa_dtype kv : {FA_I8, FA_E4M3, FA_E5M2, FA_I4, FA_U4, FA_Q8_0, FA_Q4_0}) {
        c.kv_dtype = kv;
        of_copy(c, 85);
      }
    }
    Case c;
    c.append = true;
    c.dtype = FA_BF16;
    c.rows_q = 77;
    c.rows_k = 500;
    for (const fa_dtype kv : {FA_BF16, FA_U4}) {
      c.kv_dtype = kv == c.dtype ? FA_DTYPE_DEFAULT : kv;
      of_copy(c, 0);
    }
  }

  void decode() {
    for (const fa_dtype dtype : {FA_F32, FA_BF16, FA_F16}) {
      for (const int threads : {1, 2}) {
        Case c;
        c.dtype = dtype;
        c.heads_q = 32;
        c.rows_q = 1;
        c.rows_k = 8192;
        c.threads = threads;
        c.cold = true;
        add({std::string("decode/") + element_name(dtype) + "/Sk:8192/D:128" + threads_name(c),
             Measure::of_read,
             c,
             {},
             Peak::f32,
             dtype == FA_F16 ? 0 : percent(threads == 1 ? 80 : 88)});
        c.layout = Layout::bshd;
        add({figures_.back().name + "/layout:bshd", Measure::of_read, c, {}, Peak::f32, 0});
      }
    }
  }

 private:
  /// Eight heads, and one alone, which the threads share.
  void backward_threads() {
    for (const int64_t heads : {8, 1}) {
      for (const fa_mask mask : {FA_MASK_NONE, FA_MASK_CAUSAL}) {
        for (const int64_t rows : {1024, 4096}) {
          Case one;
          one.backward = true;
          one.mask = mask;
          one.rows_q = rows;
          one.heads_q = one.heads_kv = heads;
          Case two = one;
          two.threads = 2;
          add({name_of("backward", two) + "/H:" + std::to_string(heads), Measure::of_twice_one, two, one, Peak::f32,
               90});
        }
      }
    }
  }

  void of_one_token(const Case &c) {
    Case one = c;
    one.rows_q = 1;
    add({std::string("tokens/") + element_name(c.dtype) + kv_name(c) + "/Sq:" + std::to_string(c.rows_q) +
             "/Sk:" + std::to_string(c.rows_k) + "/D:128" + threads_name(c) + cached_name(c),
         Measure::of_one_token, c, one, Peak::f32, 0});
  }

  void of_copy(const Case &c, double goal, const char *suffix = "") {
    add({std::string("append/") + element_name(c.dtype) + kv_name(c) + "/Sn:" + std::to_string(c.rows_q) + "/D:128" +
             threads_name(c) + cached_name(c) + suffix,
         Measure::of_copy,
         c,
         {},
         Peak::f32,
         goal});
  }

  double percent(double goal) const { return goal > 0 ? goal - machine_.relief : 0; }

  Peak peak_of(fa_dtype dtype) const {
    if (machine_.tiles && (dtype == FA_F16 || dtype == FA_BF16)) return Peak::bf16_amx;
    return dtype == FA_BF16 && machine_.native_bf16 ? Peak::bf16 : Peak::f32;
  }

  std::vector<Case> square_shapes(fa_dtype dtype, fa_mask mask) const {
    std::vector<Case> shapes;
    for (const int64_t rows : {1024, 4096}) {
      for (const int64_t head_dim : {64, 128}) {
        Case c;
        c.dtype = dtype;
        c.mask = mask;
        c.rows_q = rows;
        c.head_dim = head_dim;
        shapes.push_back(c);
      }
    }
    return shapes;
  }

  void of_peak(const Case &c, double goal, const char *suffix = "") {
    add({name_of(c.backward ? "backward" : "forward", c) + suffix,
         Measure::of_peak,
         c,
         {},
         c.backward && c.dtype == FA_F16 ? Peak::f32 : peak_of(c.dtype),
         c.backward ? goal : percent(goal)});
  }

  /// The kernels below the best one, where this machine has a better one.
  void forced(fa_dtype dtype, fa_mask mask) {
    const bool full = mask == FA_MASK_NONE;
    for (Case c : square_shapes(dtype, mask)) {
      if (machine_.avx512 && dtype != FA_F16) {
        c.arch = "avx2";
        add({name_of("forward", c) + "/kernel:avx2",
             Measure::of_peak,
             c,
             {},
             Peak::f32_avx2,
             dtype == FA_F32 && full ? percent(87) : 0});
      }
      if (machine_.native_bf16 && dtype == FA_BF16) {
        c.arch = "avx512";
        add({name_of("forward", c) + "/kernel:avx512", Measure::of_peak, c, {}, Peak::f32, full ? percent(88) : 0});
      }
    }
  }

  void add(Figure figure) { figures_.push_back(std::move(figure)); }

  Machine machine_;
  std::vector<Figure> figures_;
};

}  // namespace

const char *measure_name(Measure measure) {
  switch (measure) {
    case Measure::of_peak:
      return "of_peak";
    case Measure::of_twice_one:
      return "of_twice_one";
    case Measure::of_plain:
      return "of_plain";
    case Measure::points_below_128:
      return "points_below_128";
    case Measure::of_read:
      return "of_read";
    case Measure::of_copy:
      return "of_copy";
    case Measure::of_one_token:
      return "of_one_token";
    case Measure::nanoseconds:
      return "nanoseconds";
  }
  return "";
}

bool is_of_products(Measure measure) {
  return measure != Measure::of_read && measure != Measure::of_copy && measure != Measure::of_one_token &&
         measure != Measure::nanoseconds;
}

bool has_reference(Measure measure) {
  return measure == Measure::of_twice_one || measure == Measure::of_plain || measure == Measure::points_below_128 ||
         measure == Measure::of_one_token;
}

bool less_is_better(Measure measure) {
  return measure == Measure::points_below_128 || measure == Measure::of_one_token || measure == Measure::nanoseconds;
}

std::vector<Figure> figures() {
  List list;
  list.products();
  list.small();
  list.two_threads();
  list.head_dims();
  list.features();
  list.decode();
  list.decode_codes();
  list.tokens();
  list.appends();
  list.layouts();
  list.backward();
  return list.take();
}

}  // namespace fa::bench
