// Pairs of f32 in 64-bit registers: add, sub, mul, fma .f32x2 of SM 10.0 (PTX ISA 9.7.3). Directed roundings are in
// directed.cpp.
#include <cmath>

#include "exec/number.h"
#include "exec/packed.h"

namespace fa::emu {
namespace {

using ptx::Type;

template <bool ftz, class F>
struct Rounded {
  template <class... T>
  float operator()(uint16_t, T... values) const {
    float result = F{}((ftz ? flush(values) : values)...);
    if (ftz) result = flush(result);
    return canonical(result);
  }
};

template <size_t sources, class F>
bool decode_pair(Decoder &d, F) {
  if (d.type() != Type::f32x2 || d.has("rz") || d.has("rm") || d.has("rp")) return false;
  Handler handler = d.has("ftz") ? packed<uint64_t, float, Rounded<true, F>, sources>
                                 : packed<uint64_t, float, Rounded<false, F>, sources>;
  return same_type_operands(d, handler, sources, Type::f32x2);
}

bool decode_add(Decoder &d) {
  return decode_pair<2>(d, [](float a, float b) { return a + b; });
}
bool decode_sub(Decoder &d) {
  return decode_pair<2>(d, [](float a, float b) { return a - b; });
}
bool decode_mul(Decoder &d) {
  return decode_pair<2>(d, [](float a, float b) { return a * b; });
}
bool decode_fma(Decoder &d) {
  return decode_pair<3>(d, [](float a, float b, float c) { return std::fma(a, b, c); });
}

const Registration registration{{"add", decode_add}, {"sub", decode_sub}, {"mul", decode_mul}, {"fma", decode_fma}};

}  // namespace
}  // namespace fa::emu
