# Tests on emulated GPUs: fa_add_emulated_test runs a program that uses libcuda.so.1 as a device of the emulator.
#
#   fa_add_emulated_test(forward.bf16.sm_90a sm_90a fa_forward_test --gtest_filter=*bf16* CHECK SEED 7 LABELS bf16)
#
# NAME, DEVICE (as FA_EMU_DEVICE), the program (a target or a path) and its arguments; then CHECK: a finding of the checks
# fails the test; SEED n: schedules vary with it; SLOW: only ctest -C slow runs it; LABELS: further ones besides emulated
# and each device's name; ENVIRONMENT: further variables, as those of fa_emulated_environment are for every test.
function(fa_add_emulated_test name device)
  cmake_parse_arguments(arg "CHECK;SLOW" "SEED" "LABELS;ENVIRONMENT" ${ARGN})
  list(POP_FRONT arg_UNPARSED_ARGUMENTS program)
  set(configurations "")
  if(arg_SLOW)
    set(configurations CONFIGURATIONS slow)
    list(APPEND arg_LABELS slow)
  endif()
  add_test(NAME ${name} COMMAND ${program} ${arg_UNPARSED_ARGUMENTS} ${configurations})
  set(environment FA_EMU_DEVICE=${device} LD_LIBRARY_PATH=$<TARGET_FILE_DIR:fa_emulator> ${fa_emulated_environment}
      ${arg_ENVIRONMENT})
  if(arg_CHECK)
    list(APPEND environment FA_EMU_CHECK=2 FA_EMU_FAIL_ON=formal)
  endif()
  if(DEFINED arg_SEED)
    list(APPEND environment FA_EMU_SEED=${arg_SEED})
  endif()
  string(REGEX REPLACE ":[^,]*" "" devices "${device}") # properties are no labels
  string(REPLACE "," ";" devices "${devices}")
  list(REMOVE_DUPLICATES devices)
  set_tests_properties(${name} PROPERTIES LABELS "emulated;emulator;${devices};${arg_LABELS}" ENVIRONMENT
                                                                                             "${environment}")
  if("${arg_UNPARSED_ARGUMENTS}" MATCHES "--gtest_filter") # GoogleTest passes where a filter selects nothing
    set_tests_properties(${name} PROPERTIES FAIL_REGULAR_EXPRESSION "[^0-9]0 tests from 0 test suites")
    # It passes, too, where all of them skip themselves: ctest then reports the test as skipped.
    set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "PASSED  . 0 tests[.]\n.  SKIPPED ")
  endif()
  if(TARGET ${program} AND TARGET fa_emulator_builds) # an installed emulator is built
    add_dependencies(${program} fa_emulator_builds)
  endif()
endfunction()
