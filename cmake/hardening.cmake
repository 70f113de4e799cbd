# Flags that make faults of memory harder to exploit, for the library's own code: fa_hardening, which targets take as they take
# fa_flags, and fa_hardening_link_options for linking it. Their cost is too small to measure. Not with sanitizers, which see
# more.
#
#   everywhere    relocations become read-only as the library is loaded, all of them; functions with arrays on the stack have
#                 a canary
#   optimised     the C library's functions check their writes against the sizes of objects
#   x86-64        targets of indirect calls and jumps are marked, and the library does not end a process' shadow stack
include(CheckLinkerFlag)
add_library(fa_hardening INTERFACE)
set(fa_hardening_link_options "")
if(FA_SANITIZE)
  return()
endif()

target_compile_options(
  fa_hardening
  INTERFACE -fstack-protector-strong
            $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE>
            $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-D_FORTIFY_SOURCE=3>)
list(APPEND fa_hardening_link_options LINKER:-z,relro,-z,now)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(fa_hardening INTERFACE -fcf-protection)
  # A library is marked where all that it is linked of is. Debian's crtbeginS.o is not: it keeps to the shadow stack all the
  # same, but its own targets of indirect calls are bare, so that mark is left to the linker.
  check_linker_flag(CXX LINKER:-z,shstk FA_LINKER_MARKS_SHADOW_STACKS)
  if(FA_LINKER_MARKS_SHADOW_STACKS)
    list(APPEND fa_hardening_link_options LINKER:-z,shstk)
  endif()
endif()
