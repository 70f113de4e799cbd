# The builds of the library: for every CPU, and, as the dynamic loader itself takes a faster one where it can (glibc-hwcaps), for
# those with AVX2 and FMA (x86-64-v3) and with AVX-512 (x86-64-v4).
#
#   fa_emulator_levels   those beside the first: v3 and v4, or none
#   emu_optimised        the targets that are optimised, by EMU_OPTIMISE
set(fa_emulator_levels)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND EMU_HWCAPS AND NOT EMU_SANITIZE)
  set(fa_emulator_levels v3 v4)
endif()

set(emu_optimised fa_emulator_host fa_emulator fa_emulator_v3 fa_emulator_v4)
if(EMU_OPTIMISE STREQUAL "taken" AND fa_emulator_levels)
  # glibc's loader lists the levels that it searches, best first.
  execute_process(COMMAND /lib64/ld-linux-x86-64.so.2 --help OUTPUT_VARIABLE emu_loader ERROR_QUIET)
  if(emu_loader MATCHES "x86-64-(v[34]) \\(supported, searched\\)")
    set(emu_optimised fa_emulator_host fa_emulator_${CMAKE_MATCH_1})
  else()
    set(emu_optimised fa_emulator_host fa_emulator)
  endif()
elseif(NOT EMU_OPTIMISE MATCHES "^(all|taken)$")
  message(FATAL_ERROR "EMU_OPTIMISE is ${EMU_OPTIMISE}: expected all or taken")
endif()
