// Unrolling, as GCC and Clang each spell it.
#pragma once

#if defined(__clang__)
#define FA_UNROLL _Pragma("clang loop unroll(full)")
#define FA_UNROLL_2 _Pragma("clang loop unroll_count(2)")
#else
#define FA_UNROLL _Pragma("GCC unroll 16")
#define FA_UNROLL_2 _Pragma("GCC unroll 2")
#endif
