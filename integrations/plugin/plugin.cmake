# A plug-in: a library that another program loads, through which it computes attention by libfa. It is a part of libfa's build, or a
# project that finds an installed libfa by find_package.
#
#   fa_add_plugin(TARGET HOST SOURCE...)   TARGET exports the names in TARGET.map alone; HOST is its name in log lines
if(NOT TARGET fa)
  set(CMAKE_CXX_STANDARD 20)
  set(CMAKE_CXX_STANDARD_REQUIRED ON)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
  endif()
  find_package(fa REQUIRED)
  include(GNUInstallDirs)
endif()

function(fa_add_plugin target host)
  set(common ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  set(map ${CMAKE_CURRENT_SOURCE_DIR}/${target}.map)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
  add_library(${target} MODULE ${sources} ${common}/log.cpp ${common}/memory.cpp ${common}/op_cache.cpp)
  target_include_directories(${target} PRIVATE ${common}/..)
  target_compile_definitions(${target} PRIVATE FA_PLUGIN_HOST="${host}")
  target_link_libraries(${target} PRIVATE fa::fa $<$<TARGET_EXISTS:fa_flags>:fa_flags>)
  target_link_options(${target} PRIVATE LINKER:--version-script=${map} LINKER:-z,defs)
  set_target_properties(
    ${target}
    PROPERTIES CXX_VISIBILITY_PRESET hidden
               LINK_DEPENDS ${map}
               LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}
               INSTALL_RPATH $ORIGIN)
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
endfunction()
