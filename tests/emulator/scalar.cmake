# Tests of scalar instructions: text written around one instruction, checked against formulas of their own.
add_executable(emulator_scalar_test client.cpp convert_test.cpp float_test.cpp integer_test.cpp)
target_include_directories(emulator_scalar_test PRIVATE ${PROJECT_SOURCE_DIR}/emulator)
target_link_libraries(emulator_scalar_test PRIVATE ${CMAKE_DL_LIBS} GTest::gtest_main)
fa_test_target(emulator_scalar_test)
add_dependencies(emulator_scalar_test fa_emulator_builds)
foreach(suite Convert Halves Floats Approximations Integers)
  string(TOLOWER ${suite} name)
  fa_add_emulated_test(emulator.${name}.sm_100a sm_100a emulator_scalar_test --gtest_filter=${suite}.*
                       LABELS unit)
endforeach()
