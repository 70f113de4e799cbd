# nvcc: of a CUDA toolkit that is there, or from PyPI, fetched into the source tree, where all build trees share it: 13.0 into
# build/nvcc (300 MB), the replacement of nvcc 12.9 into build/nvcc12 (140 MB, scripts/nvcc12.py).
#
#   fa_need_nvcc(COMPILER VERSION)               now, while configuring: of the CUDA that FA_CUDA asks for, and its version,
#                                                13000 for 13.0; fails with advice where it is not available
#   fa_nvcc_for_tests(VARIABLE)                  its path, for tests that require the fixture emu_nvcc
#   fa_add_nvcc_test(images.nvcc sh script.sh)   such a test; NVCC in its environment names the compiler, which the test
#                                                nvcc.fetch gets; skipped where it cannot be had
# FA_NVCC is the machine's nvcc, if it has one, or else the nvcc 13.0 that was fetched.
include_guard(GLOBAL)
set(fa_nvcc_folder ${PROJECT_SOURCE_DIR}/build/nvcc)

# The version of CUDA that an nvcc is of: 13000 for 13.0; 0 where it does not run.
function(fa_nvcc_version nvcc variable)
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE text ERROR_QUIET RESULT_VARIABLE ignored)
  set(version 0)
  if(text MATCHES "release ([0-9]+)[.]([0-9]+)")
    math(EXPR version "${CMAKE_MATCH_1} * 1000 + ${CMAKE_MATCH_2} * 10")
  endif()
  set(${variable} ${version} PARENT_SCOPE)
endfunction()

function(fa_need_nvcc variable version_variable)
  if(NOT "${FA_CUDA}" MATCHES "^(|12|13)$")
    message(FATAL_ERROR "FA_CUDA is ${FA_CUDA}: expected 12, 13 or nothing, for the version of the CUDA toolkit that is found. "
                        "Kernels of CUDA 12 run on drivers from 525 on, those of CUDA 13 from 580 on: there is no need for both")
  endif()
  set(nvcc ${FA_NVCC})
  set(version 0)
  if(FA_NVCC)
    fa_nvcc_version(${FA_NVCC} version)
    if(version EQUAL 0)
      message(FATAL_ERROR "FA_NVCC is ${FA_NVCC}, which reports no version: expected an nvcc of CUDA 12.4 or later")
    endif()
    math(EXPR major "${version} / 1000")
    if(FA_CUDA AND NOT major EQUAL FA_CUDA)
      message(STATUS "${FA_NVCC} is not of CUDA ${FA_CUDA}: fetching one that is")
      set(version 0)
    elseif(version LESS 12040)
      math(EXPR minor "${version} % 1000 / 10")
      message(FATAL_ERROR "FA_NVCC is ${FA_NVCC}, of CUDA ${major}.${minor}: expected 12.4 or later. Name another, or have "
                          "12.9 fetched: -DFA_CUDA=12 -DFA_NVCC=")
    endif()
  endif()
  if(version EQUAL 0)
    set(cuda ${FA_CUDA})
    if(NOT cuda)
      set(cuda 13)
    endif()
    set(folder ${fa_nvcc_folder})
    if(cuda EQUAL 12)
      set(folder ${fa_nvcc_folder}12)
    endif()
    execute_process(COMMAND sh ${PROJECT_SOURCE_DIR}/scripts/fetch_nvcc.sh --cuda ${cuda} ${folder} OUTPUT_VARIABLE nvcc
                    RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(status)
      message(FATAL_ERROR "GPU kernels need nvcc, and neither a CUDA toolkit was found nor PyPI's nvcc could be installed. "
                          "Name one with -DFA_NVCC=/path/to/nvcc, or build without GPU kernels: -DFA_KERNELS=off")
    endif()
    fa_nvcc_version(${nvcc} version)
    if(NOT FA_NVCC AND cuda EQUAL 13)
      set(FA_NVCC ${nvcc} CACHE FILEPATH "nvcc" FORCE)
    endif()
  endif()
  set(${variable} ${nvcc} PARENT_SCOPE)
  set(${version_variable} ${version} PARENT_SCOPE)
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
