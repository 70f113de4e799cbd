# Tests of scalar instructions: text written around one instruction, checked against independent formulas.
add_executable(emulator_scalar_test client.cpp access_test.cpp convert_test.cpp float_test.cpp integer_test.cpp
                                    program_test.cpp scalar_kernel_test.cpp unsupported_test.cpp)
emu_test_target(emulator_scalar_test)
target_compile_definitions(emulator_scalar_test PRIVATE TEST_KERNELS="${CMAKE_CURRENT_BINARY_DIR}/kernels")
add_dependencies(emulator_scalar_test fa_emulator_builds)
foreach(suite Access Approximations Control Convert Floats Halves Integers Programs Unsupported)
  string(TOLOWER ${suite} name)
  fa_add_emulated_test(emulator.${name}.sm_100a sm_100a emulator_scalar_test "--gtest_filter=${suite}*"
                       LABELS unit)
endforeach()
fa_add_emulated_test(emulator.unsupported.sm_90a sm_90a emulator_scalar_test "--gtest_filter=Unsupported*" LABELS unit)

# nvcc's output for each SM, also with schedules that a seed varies.
foreach(sm sm_75 sm_80 sm_86 sm_89 sm_90a sm_100a sm_120)
  emu_have_fixture(kernels/scalar.${sm} have)
  if(NOT have)
    continue()
  endif()
  foreach(seed 0 7)
    fa_add_emulated_test(emulator.scalar_kernels.${sm}.seed${seed} ${sm} emulator_scalar_test
                         "--gtest_filter=ScalarKernel*" SEED ${seed} LABELS unit)
  endforeach()
endforeach()
