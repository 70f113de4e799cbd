# fa_cases: the cases, the oracle and what compares with it; for the suites, and for `fa check` and `fa run --case`.
include_guard(GLOBAL)
set(fa_tests ${PROJECT_SOURCE_DIR}/tests)

# Optimised in every build; gcc 12 sees overlaps in std::string's assignment that are not there.
function(fa_cases_target target)
  target_include_directories(${target} PUBLIC ${fa_tests})
  target_compile_options(${target} PRIVATE -O2 $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
  target_link_libraries(${target} PUBLIC fa::fa ${CMAKE_DL_LIBS} PRIVATE fa_flags)
  if(CMAKE_CROSSCOMPILING_EMULATOR)
    target_compile_definitions(${target} PRIVATE TEST_EMULATED)
  endif()
endfunction()

# What judges a call, apart: most of the suites' time is spent here, and no sanitizer watches it. What touches the memory
# that a call works on is watched.
set(fa_judge_sources ${fa_tests}/oracle/call.cpp ${fa_tests}/oracle/oracle.cpp ${fa_tests}/support/case.cpp
                     ${fa_tests}/support/compare.cpp)
add_library(fa_judge OBJECT ${fa_judge_sources})
fa_cases_target(fa_judge)
if(FA_SANITIZE)
  set_source_files_properties(${fa_judge_sources} PROPERTIES COMPILE_OPTIONS -fno-sanitize=all)
endif()

add_library(
  fa_cases STATIC
  ${fa_tests}/support/gpu.cpp
  ${fa_tests}/support/instance.cpp
  ${fa_tests}/support/memory.cpp
  ${fa_tests}/support/run.cpp
  ${fa_tests}/support/tensor.cpp
  $<TARGET_OBJECTS:fa_judge>)
fa_cases_target(fa_cases)
