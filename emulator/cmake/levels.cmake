# The builds of the library: for every CPU, and, as the dynamic loader itself takes a faster one where it can (glibc-hwcaps), for
# those with AVX2 and FMA (x86-64-v3) and with AVX-512 (x86-64-v4).
#
#   fa_emulator_levels   those besides the first: v3 and v4, or none
#   emu_optimised        the targets that are optimised, by EMU_OPTIMISE
#   emu_built            the builds that are made and installed, by EMU_OPTIMISE
set(fa_emulator_levels)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND EMU_HWCAPS AND NOT EMU_SANITIZE)
  set(fa_emulator_levels v3 v4)
endif()

set(emu_built fa_emulator)
foreach(level IN LISTS fa_emulator_levels)
  list(APPEND emu_built fa_emulator_${level})
endforeach()
set(emu_optimised fa_emulator_host ${emu_built})
if(EMU_OPTIMISE MATCHES "^(taken|alone)$" AND fa_emulator_levels)
  # glibc's loader lists the levels that it searches, best first.
  execute_process(COMMAND /lib64/ld-linux-x86-64.so.2 --help OUTPUT_VARIABLE emu_loader ERROR_QUIET)
  if(emu_loader MATCHES "x86-64-(v[34]) \\(supported, searched\\)")
    set(emu_taken fa_emulator_${CMAKE_MATCH_1})
  else()
    set(emu_taken fa_emulator)
  endif()
  set(emu_optimised fa_emulator_host ${emu_taken})
  if(EMU_OPTIMISE STREQUAL "alone")
    set(emu_built ${emu_taken})
  endif()
elseif(NOT EMU_OPTIMISE MATCHES "^(all|taken|alone)$")
  message(FATAL_ERROR "EMU_OPTIMISE is ${EMU_OPTIMISE}: expected all, taken or alone")
endif()
