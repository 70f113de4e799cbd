# nvcc: of a CUDA toolkit that is there, or 13.0 from PyPI, fetched into build/nvcc of the source tree (300 MB, shared by all
# build trees).
#
#   fa_need_nvcc(VARIABLE)                       now, while configuring; fails with advice where it is not available
#   fa_nvcc_for_tests(VARIABLE)                  its path, for tests that require the fixture emu_nvcc
#   fa_add_nvcc_test(images.nvcc sh script.sh)   such a test; NVCC in its environment names the compiler, which the test
#                                                nvcc.fetch gets; skipped where it cannot be had
# FA_NVCC is what the machine has, if anything.
include_guard(GLOBAL)
set(fa_nvcc_folder ${PROJECT_SOURCE_DIR}/build/nvcc)

function(fa_need_nvcc variable)
  if(NOT FA_NVCC)
    execute_process(COMMAND sh ${PROJECT_SOURCE_DIR}/scripts/fetch_nvcc.sh ${fa_nvcc_folder} OUTPUT_VARIABLE fetched
                    RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(status)
      message(FATAL_ERROR "GPU kernels need nvcc, and neither a CUDA toolkit was found nor PyPI's nvcc could be installed. "
                          "Name one with -DFA_NVCC=/path/to/nvcc, or build without GPU kernels: -DFA_KERNELS=off")
    endif()
    set(FA_NVCC ${fetched} CACHE FILEPATH "nvcc" FORCE)
  endif()
  set(${variable} ${FA_NVCC} PARENT_SCOPE)
endfunction()

# Where nvcc is missing, the test nvcc.fetch gets it: fixture emu_nvcc, as the emulator's tests name it (emulator/tests).
function(fa_nvcc_for_tests variable)
  set(nvcc ${FA_NVCC})
  if(NOT FA_NVCC)
    set(nvcc ${fa_nvcc_folder}/nvidia/cu13/bin/nvcc)
    get_property(fetched GLOBAL PROPERTY fa_nvcc_fetch)
    if(NOT fetched)
      add_test(NAME nvcc.fetch COMMAND sh ${PROJECT_SOURCE_DIR}/scripts/fetch_nvcc.sh ${fa_nvcc_folder})
      set_tests_properties(nvcc.fetch PROPERTIES LABELS nvcc SKIP_RETURN_CODE 77 FIXTURES_SETUP emu_nvcc TIMEOUT 900)
      set_property(GLOBAL PROPERTY fa_nvcc_fetch ON)
    endif()
  endif()
  set(${variable} ${nvcc} PARENT_SCOPE)
endfunction()

function(fa_add_nvcc_test name)
  fa_nvcc_for_tests(nvcc)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS "emulator;nvcc" ENVIRONMENT NVCC=${nvcc} SKIP_RETURN_CODE 77
                                          FIXTURES_REQUIRED emu_nvcc)
endfunction()
