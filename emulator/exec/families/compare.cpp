// setp of integers and floats, combined with a predicate where the text asks for it (PTX ISA 9.7.6). Pairs of halves,
// and set: set.cpp.
#include "exec/families/compare.h"

#include "exec/dispatch.h"
#include "exec/number.h"

namespace fa::emu {
namespace {

using ptx::Type;

/// Unordered comparisons are the negation of their opposites.
template <Compare compare, class T>
bool holds(T a, T b) {
  using enum Compare;
  if constexpr (compare == eq) return a == b;
  if constexpr (compare == ne) return a < b || a > b;
  if constexpr (compare == lt) return a < b;
  if constexpr (compare == le) return a <= b;
  if constexpr (compare == gt) return a > b;
  if constexpr (compare == ge) return a >= b;
  if constexpr (compare == equ) return !(a < b || a > b);
  if constexpr (compare == neu) return !(a == b);
  if constexpr (compare == ltu) return !(a >= b);
  if constexpr (compare == leu) return !(a > b);
  if constexpr (compare == gtu) return !(a <= b);
  if constexpr (compare == geu) return !(a < b);
  if constexpr (compare == num) return a == a && b == b;
  if constexpr (compare == nan) return !(a == a && b == b);
}

/// A row's element as the value that is compared.
struct Same {
  template <class T>
  static T value(T raw) {
    return raw;
  }
};
struct FlushF32 {
  static float value(float raw) { return flush(raw); }
};
struct Half {
  static float value(uint16_t raw) { return float_from_half(raw); }
};
struct Bfloat {
  static float value(uint16_t raw) { return float_from_bfloat(raw); }
};

/// detail: bits 0-1 the operation with c (0 none, 1 and, 2 or, 3 xor), bit 2 negates c. list[0]: the second result.
template <Compare compare, class T, class Reader>
void set_predicate(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const T *a = warp.row<T>(instruction.a), *b = warp.row<T>(instruction.b);
  uint32_t bits =
      collect([&](uint32_t lane) { return holds<compare>(Reader::value(a[lane]), Reader::value(b[lane])); });
  uint32_t opposite = ~bits;
  if (uint32_t operation = instruction.detail & 3) {
    uint32_t c = *warp.row<uint32_t>(instruction.c) ^ (instruction.detail & 4 ? all_lanes : 0);
    auto combine = [&](uint32_t x) { return operation == 1 ? x & c : operation == 2 ? x | c : x ^ c; };
    bits = combine(bits);
    opposite = combine(opposite);
  }
  store_predicate(warp.row<uint32_t>(instruction.dst), bits, mask);
  if (instruction.list_count) store_predicate(warp.row<uint32_t>(warp.list(instruction)[0]), opposite, mask);
}

template <class T, class Reader, bool floating>
Handler by_compare(Compare compare) {
  using enum Compare;
  switch (compare) {
    case eq:
      return set_predicate<eq, T, Reader>;
    case ne:
      return set_predicate<ne, T, Reader>;
    case lt:
    case lo:
      return set_predicate<lt, T, Reader>;
    case le:
    case ls:
      return set_predicate<le, T, Reader>;
    case gt:
    case hi:
      return set_predicate<gt, T, Reader>;
    case ge:
    case hs:
      return set_predicate<ge, T, Reader>;
    default:
      break;
  }
  if constexpr (floating) {
    switch (compare) {
      case equ:
        return set_predicate<equ, T, Reader>;
      case neu:
        return set_predicate<neu, T, Reader>;
      case ltu:
        return set_predicate<ltu, T, Reader>;
      case leu:
        return set_predicate<leu, T, Reader>;
      case gtu:
        return set_predicate<gtu, T, Reader>;
      case geu:
        return set_predicate<geu, T, Reader>;
      case num:
        return set_predicate<num, T, Reader>;
      case nan:
        return set_predicate<nan, T, Reader>;
      default:
        break;
    }
  }
  return nullptr;
}

Handler comparison(Compare compare, Type type, bool ftz) {
  switch (type) {
    case Type::b16:
    case Type::u16:
      return by_compare<uint16_t, Same, false>(compare);
    case Type::s16:
      return by_compare<int16_t, Same, false>(compare);
    case Type::b32:
    case Type::u32:
      return by_compare<uint32_t, Same, false>(compare);
    case Type::s32:
      return by_compare<int32_t, Same, false>(compare);
    case Type::b64:
    case Type::u64:
      return by_compare<uint64_t, Same, false>(compare);
    case Type::s64:
      return by_compare<int64_t, Same, false>(compare);
    case Type::f32:
      return ftz ? by_compare<float, FlushF32, true>(compare) : by_compare<float, Same, true>(compare);
    case Type::f64:
      return by_compare<double, Same, true>(compare);
    case Type::f16:
      return by_compare<uint16_t, Half, true>(compare);
    case Type::bf16:
      return by_compare<uint16_t, Bfloat, true>(compare);
    default:
      return nullptr;
  }
}

bool decode_setp(Decoder &d) {
  Type type = d.type();
  Handler handler = comparison(compare_of(d), type, d.has("ftz"));
  if (!handler) return false;
  uint16_t operation = d.has("and") ? 1 : d.has("or") ? 2 : d.has("xor") ? 3 : 0;
  d.expect_operands(operation ? 4 : 3, operation ? 4 : 3);
  d.out().a = d.source(1, type);
  d.out().b = d.source(2, type);
  d.out().detail = operation;
  if (operation) {
    d.out().c = d.source(3, Type::pred);
    d.out().detail = static_cast<uint16_t>(operation | (d.operand(3).negated ? 4 : 0));
  }
  d.out().dst = d.destination(0, Type::pred);
  if (Slot second = d.second_destination(0); second.exists()) d.list({second});
  return d.run(handler);
}

const Registration registration{{"setp", decode_setp}};

}  // namespace
}  // namespace fa::emu
