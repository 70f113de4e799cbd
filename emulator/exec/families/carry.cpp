// Arithmetic with the carry flag CC.CF: add.cc addc sub.cc subc mad.cc madc (PTX ISA 9.7.2, extended precision). Every
// lane has a flag; of a subtraction it is the borrow.
#include <type_traits>

#include "exec/dispatch.h"

namespace fa::emu {
namespace {

using ptx::Type;

/// The flags of a warp's lanes.
struct CarryFlags : State {
  uint32_t set = 0;
};

/// Instruction::detail.
enum Use : uint16_t { reads_flag = 1, writes_flag = 2 };

template <class T>
struct Result {
  T value;
  bool carry;
};

struct Add {
  template <class T>
  static Result<T> of(T a, T b, T, bool flag) {
    T partial = static_cast<T>(a + b), sum = static_cast<T>(partial + T{flag});
    return {sum, partial < a || sum < partial};
  }
};
struct Subtract {
  template <class T>
  static Result<T> of(T a, T b, T, bool flag) {
    T partial = static_cast<T>(a - b);
    return {static_cast<T>(partial - T{flag}), a < b || partial < T{flag}};
  }
};
struct MultiplyLow {
  template <class T>
  static Result<T> of(T a, T b, T c, bool flag) {
    return Add::of<T>(static_cast<T>(a * b), c, 0, flag);
  }
};
template <bool sign>
struct MultiplyHigh {
  template <class T>
  static Result<T> of(T a, T b, T c, bool flag) {
    __extension__ using Signed = __int128;
    __extension__ using Unsigned = unsigned __int128;
    using Narrow = std::conditional_t<sign, std::make_signed_t<T>, T>;
    using Wide = std::conditional_t<sign, Signed, Unsigned>;
    Wide product = static_cast<Wide>(static_cast<Narrow>(a)) * static_cast<Wide>(static_cast<Narrow>(b));
    return Add::of<T>(static_cast<T>(product >> (sizeof(T) * 8)), c, 0, flag);
  }
};

template <class T, class F>
void with_carry(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const T *a = warp.row<T>(instruction.a), *b = warp.row<T>(instruction.b), *c = warp.row<T>(instruction.c);
  uint32_t &flags = warp.state<CarryFlags>().set;
  uint32_t before = instruction.detail & reads_flag ? flags : 0, after = 0;
  T computed[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++) {
    Result<T> result = F::of(a[lane], b[lane], c[lane], before >> lane & 1);
    computed[lane] = result.value;
    after |= uint32_t{result.carry} << lane;
  }
  store_lanes(warp.row<T>(instruction.dst), computed, mask);
  if (instruction.detail & writes_flag) store_predicate(&flags, after, mask);
}

template <class F>
bool decode_with(Decoder &d, uint16_t use, bool three) {
  Type type = d.type();
  uint32_t bytes = ptx::bytes_of(type);
  if (!ptx::is_integer(type) || (bytes != 4 && bytes != 8)) return false;
  d.expect_operands(three ? 4 : 3, three ? 4 : 3);
  d.out().a = d.source(1, type);
  d.out().b = d.source(2, type);
  d.out().c = three ? d.source(3, type) : d.out().a;
  d.out().dst = d.destination(0, type);
  d.out().detail = static_cast<uint16_t>(use | (d.has("cc") ? writes_flag : 0));
  return d.run(bytes == 4 ? with_carry<uint32_t, F> : with_carry<uint64_t, F>);
}

bool decode_multiply(Decoder &d, uint16_t use) {
  if (d.has("lo")) return decode_with<MultiplyLow>(d, use, true);
  if (!d.has("hi")) return false;
  return ptx::is_signed(d.type()) ? decode_with<MultiplyHigh<true>>(d, use, true)
                                  : decode_with<MultiplyHigh<false>>(d, use, true);
}

bool decode_add(Decoder &d) {
  return d.has("cc") && decode_with<Add>(d, 0, false);
}
bool decode_addc(Decoder &d) {
  return decode_with<Add>(d, reads_flag, false);
}
bool decode_sub(Decoder &d) {
  return d.has("cc") && decode_with<Subtract>(d, 0, false);
}
bool decode_subc(Decoder &d) {
  return decode_with<Subtract>(d, reads_flag, false);
}
bool decode_mad(Decoder &d) {
  return d.has("cc") && decode_multiply(d, 0);
}
bool decode_madc(Decoder &d) {
  return decode_multiply(d, reads_flag);
}

const Registration registration{{"add", decode_add},   {"addc", decode_addc}, {"sub", decode_sub},
                                {"subc", decode_subc}, {"mad", decode_mad},   {"madc", decode_madc}};

}  // namespace
}  // namespace fa::emu
