# fa_optimise_option: the option that compiles the CPU's kernels with -O3, for source files' COMPILE_OPTIONS. A project that
# embeds libfa has no build type by default, or Debug, and kernels that are not optimised are 49 times as slow.
#
# Empty without FA_OPTIMISE, and in configurations whose flags, libfa's or the embedding project's, instrument the code for a
# sanitizer or for coverage.
set(fa_instrumented "-fsanitize|--coverage|-fprofile-arcs|-fprofile-instr-generate")
get_directory_property(fa_inherited COMPILE_OPTIONS)
set(fa_optimise_option "")
if(FA_OPTIMISE AND NOT FA_SANITIZE AND NOT FA_COVERAGE AND NOT "${CMAKE_CXX_FLAGS} ${fa_inherited}" MATCHES "${fa_instrumented}")
  set(fa_optimise_option -O3)
  foreach(configuration ${CMAKE_CONFIGURATION_TYPES} ${CMAKE_BUILD_TYPE})
    string(TOUPPER ${configuration} upper)
    if("${CMAKE_CXX_FLAGS_${upper}}" MATCHES "${fa_instrumented}")
      set(fa_optimise_option "$<$<NOT:$<CONFIG:${configuration}>>:${fa_optimise_option}>")
    endif()
  endforeach()
endif()
