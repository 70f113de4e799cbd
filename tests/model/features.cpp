// Which kernels the model's build has: those that run on the model.
#include "cpu/features.h"

namespace fa::cpu {

const char *lacks_amx_bf16() {
  return nullptr;
}
const char *lacks_amx_bf16x2() {
  return nullptr;
}
const char *lacks_avx512_bf16() {
  return nullptr;
}
const char *lacks_avx512() {
  return nullptr;
}
const char *lacks_avx2() {
  return "only modelled kernels are tested here";
}
const char *lacks_generic() {
  return lacks_avx2();
}

}  // namespace fa::cpu
