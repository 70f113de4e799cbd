# PTX of the tests' .cu files, in the build tree's kernels/ and mutants/: compiled where nvcc is at hand, else those that are
# committed, one of each instruction set; emu_have_fixture(NAME VARIABLE) says whether there is one.
#
# kernels/scalar.sm_75 is kernels/scalar.cu for SM 75, and so on.
set(emu_fixtures
    kernels/async.sm_90a kernels/basic.sm_80 kernels/basic.sm_100 kernels/cluster_launch.sm_100a kernels/cooperative.sm_75
    kernels/cooperative.sm_80 kernels/tables.sm_80 kernels/tcgen05_attention.sm_100a kernels/wgmma_attention.sm_90a
    mutants/attention.sm_80 mutants/tcgen05_attention.sm_100a mutants/wgmma_attention.sm_90a)
foreach(sm 75 80 86 89 90a 100a 120)
  list(APPEND emu_fixtures kernels/scalar.sm_${sm})
endforeach()

file(GLOB emu_fixture_headers ${CMAKE_CURRENT_SOURCE_DIR}/kernels/*.cu*)
set(emu_compiled "")
foreach(fixture IN LISTS emu_fixtures)
  set(text ${CMAKE_CURRENT_BINARY_DIR}/${fixture}.ptx)
  set(committed ${CMAKE_CURRENT_SOURCE_DIR}/${fixture}.ptx)
  string(REGEX MATCH "^(.*)[.](sm_[0-9a-z]+)$" matched ${fixture})
  if(EXISTS "${EMU_NVCC}")
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/${CMAKE_MATCH_1}.cu)
    get_filename_component(folder ${text} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(OUTPUT ${text} COMMAND ${EMU_NVCC} -std=c++17 -ptx -arch=${CMAKE_MATCH_2} ${source} -o ${text}
                       DEPENDS ${source} ${emu_fixture_headers} COMMENT "PTX ${fixture}" VERBATIM)
    list(APPEND emu_compiled ${text})
  elseif(EXISTS ${committed})
    configure_file(${committed} ${text} COPYONLY)
  endif()
endforeach()
add_custom_target(emulator_fixtures ALL DEPENDS ${emu_compiled})

function(emu_have_fixture fixture variable)
  if(EXISTS "${EMU_NVCC}" OR EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${fixture}.ptx)
    set(${variable} ON PARENT_SCOPE)
  else()
    message(STATUS "Emulator: no tests with ${fixture}.cu, which needs nvcc (-DEMU_NVCC=...)")
    set(${variable} OFF PARENT_SCOPE)
  endif()
endfunction()
