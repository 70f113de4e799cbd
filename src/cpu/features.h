// What this CPU can run, asked of the CPU and the operating system once.
#pragma once

namespace fa::cpu {

/// nullptr when this machine runs the ISA, else what it lacks.
const char *lacks_avx512_bf16();
const char *lacks_avx512();
const char *lacks_avx2();
const char *lacks_neon();
const char *lacks_generic();

}  // namespace fa::cpu
