// Each element is replaced by compare and swap: other blocks run on other threads.
#include "exec/reduce.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include "exec/number.h"

namespace fa::emu {
namespace {

using ptx::Type;

struct Half {
  uint16_t bits;
  static float up(Half half) { return float_from_half(half.bits); }
  static Half down(float value) { return {half_from_float(value)}; }
};
struct Bfloat {
  uint16_t bits;
  static float up(Bfloat bfloat) { return float_from_bfloat(bfloat.bits); }
  static Bfloat down(float value) { return {bfloat_from_float(value)}; }
};

template <class T>
T combine_numbers(Reduction reduction, T a, T b) {
  if (reduction == Reduction::add) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    } else {
      return a + b;
    }
  }
  if (reduction == Reduction::min) return b < a || a != a ? b : a;
  if (reduction == Reduction::max) return a < b || a != a ? b : a;
  if constexpr (std::is_integral_v<T>) {
    if (reduction == Reduction::inc) return a >= b ? T{0} : static_cast<T>(a + 1);
    if (reduction == Reduction::dec) return a == 0 || a > b ? b : static_cast<T>(a - 1);
    if (reduction == Reduction::bit_and) return a & b;
    if (reduction == Reduction::bit_or) return a | b;
    return a ^ b;
  }
  return a;
}

template <class T, Reduction reduction>
T combine(T a, T b) {
  if constexpr (std::is_arithmetic_v<T>)
    return combine_numbers(reduction, a, b);
  else
    return T::down(combine_numbers(reduction, T::up(a), T::up(b)));
}

template <class T, Reduction reduction>
void reduce(uint8_t *to, const uint8_t *data, size_t bytes) {
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
  for (size_t at = 0; at < bytes; at += sizeof(T)) {
    T operand, old;
    std::memcpy(&operand, data + at, sizeof operand);
    Bits *place = reinterpret_cast<Bits *>(to + at);
    Bits before = __atomic_load_n(place, __ATOMIC_RELAXED), after;
    do {
      std::memcpy(&old, &before, sizeof old);
      T combined = combine<T, reduction>(old, operand);
      std::memcpy(&after, &combined, sizeof after);
    } while (!__atomic_compare_exchange_n(place, &before, after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  }
}

template <class T>
Reduce number_reduction(Reduction reduction) {
  switch (reduction) {
    case Reduction::add:
      return reduce<T, Reduction::add>;
    case Reduction::min:
      return reduce<T, Reduction::min>;
    case Reduction::max:
      return reduce<T, Reduction::max>;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (reduction) {
      case Reduction::inc:
        return reduce<T, Reduction::inc>;
      case Reduction::dec:
        return reduce<T, Reduction::dec>;
      case Reduction::bit_and:
        return reduce<T, Reduction::bit_and>;
      case Reduction::bit_or:
        return reduce<T, Reduction::bit_or>;
      case Reduction::bit_xor:
        return reduce<T, Reduction::bit_xor>;
      default:
        break;
    }
  }
  return nullptr;
}

}  // namespace

Reduction reduction_of(const ptx::Opcode &opcode) {
  constexpr std::pair<std::string_view, Reduction> names[] = {
      {"add", Reduction::add}, {"min", Reduction::min},     {"max", Reduction::max},   {"inc", Reduction::inc},
      {"dec", Reduction::dec}, {"and", Reduction::bit_and}, {"or", Reduction::bit_or}, {"xor", Reduction::bit_xor}};
  for (auto [name, reduction] : names)
    if (opcode.has(name)) return reduction;
  return Reduction::none;
}

Reduce reduce_of(Reduction reduction, Type type) {
  switch (type) {
    case Type::u32:
    case Type::b32:
      return number_reduction<uint32_t>(reduction);
    case Type::s32:
      return number_reduction<int32_t>(reduction);
    case Type::u64:
    case Type::b64:
      return number_reduction<uint64_t>(reduction);
    case Type::s64:
      return number_reduction<int64_t>(reduction);
    case Type::f16:
      return number_reduction<Half>(reduction);
    case Type::bf16:
      return number_reduction<Bfloat>(reduction);
    case Type::f32:
      return number_reduction<float>(reduction);
    case Type::f64:
      return number_reduction<double>(reduction);
    default:
      return nullptr;
  }
}

Type ptx_type(TensorType type) {
  constexpr Type types[] = {Type::u8,  Type::u16, Type::u32,  Type::s32, Type::u64, Type::s64, Type::f16,
                            Type::f32, Type::f64, Type::bf16, Type::f32, Type::f32, Type::f32};
  return type <= TensorType::tf32_ftz ? types[static_cast<size_t>(type)] : Type::none;
}

}  // namespace fa::emu
