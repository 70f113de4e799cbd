# Tests that take turns: with FA_TEST_ROTATION=N in its environment, ctest runs of every group below the tests number N, N + n, ... and
# leaves the others to other values of N: n consecutive ones run all. A run of all presets sets the number of commits; without the variable
# every test runs. Tests that others need (fixtures) run in every turn. ctest itself reads CTestCustom.cmake, where it is started, and
# forgets the tests that this file names.
#
#   fa_rotating_tests(GROUP ONE_OF REGEX [EXCEPT REGEX])
function(fa_rotating_tests group one_of regex)
  cmake_parse_arguments(arg "" "EXCEPT" "" ${ARGN})
  set(tests ${fa_all_tests})
  list(FILTER tests INCLUDE REGEX "${regex}")
  if(arg_EXCEPT)
    list(FILTER tests EXCLUDE REGEX "${arg_EXCEPT}")
  endif()
  list(JOIN tests "\n    " tests)
  file(APPEND ${fa_custom_file}.new "fa_take_turns(${group} ${one_of}\n    ${tests})\n")
endfunction()

function(fa_tests_below folder)
  get_property(tests DIRECTORY ${folder} PROPERTY TESTS)
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  list(APPEND fa_all_tests ${tests})
  foreach(each IN LISTS folders)
    fa_tests_below(${each})
  endforeach()
  set(fa_all_tests ${fa_all_tests} PARENT_SCOPE)
endfunction()

set(fa_all_tests "")
fa_tests_below(${PROJECT_SOURCE_DIR})
set(fa_custom_file ${PROJECT_BINARY_DIR}/CTestCustom.cmake)
file(WRITE ${fa_custom_file}.new [[
set(fa_number "$ENV{FA_TEST_ROTATION}")
function(fa_take_turns group one_of)
  if(NOT fa_number MATCHES "^[0-9]+$")
    return()
  endif()
  set(number ${fa_number})
  foreach(test IN LISTS ARGN)
    math(EXPR number "(${number} + 1) % ${one_of}")
    if(NOT number EQUAL 0 AND NOT test MATCHES "[.](build|fetch|images|install|package|precompile|tree)$")
      list(APPEND CTEST_CUSTOM_TESTS_IGNORE ${test})
    endif()
  endforeach()
  set(CTEST_CUSTOM_TESTS_IGNORE ${CTEST_CUSTOM_TESTS_IGNORE} PARENT_SCOPE)
endfunction()
]])

get_property(isas GLOBAL PROPERTY FA_CPU_ISAS)
list(JOIN isas "|" isas)
set(fa_cpu_suites "[.](${isas})(_model)?$")
if(FA_SANITIZE MATCHES "address")
  fa_rotating_tests(cpu 2 "${fa_cpu_suites}")
elseif(FA_SANITIZE MATCHES "thread" OR CMAKE_CROSSCOMPILING)
  fa_rotating_tests(cpu 3 "${fa_cpu_suites}")
elseif(NOT FA_COVERAGE)
  # An emulated GPU is slow, and one source has the kernels of several SMs and types.
  fa_rotating_tests(gpu 3 "[.]sm_[0-9]+a?([.]seed[0-9]+)?$" EXCEPT "^(cuda|gpu|quick|kernels_mutants)_|^emulator[.]|^kernels_mutants")
  fa_rotating_tests(cuda 2 "^cuda_.*[.]sm_[0-9]+a?([.]seed[0-9]+)?$")
  fa_rotating_tests(emulator 3 "^emulator[.]")
  # Programs that are built with other options or in other languages, beyond those of the preset quick.
  fa_rotating_tests(
    users 2 "^(python|rust|julia|install)[.]" EXCEPT
    "^python[.](attention|cases|dtypes|errors|header|fuzz|readme|types)$|[.](generated|build)$|^rust[.](sys|cases)$|^julia[.](interface|errors)$")
endif()
configure_file(${fa_custom_file}.new ${fa_custom_file} COPYONLY)
