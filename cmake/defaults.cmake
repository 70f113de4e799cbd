# Defaults for every target of this directory and below. All of these are directory variables: a project that embeds libfa
# keeps its own.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

get_property(fa_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(PROJECT_IS_TOP_LEVEL AND NOT fa_multi_config AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
endif()

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()

if(FA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(FA_CCACHE_PROGRAM ccache)
  mark_as_advanced(FA_CCACHE_PROGRAM)
  if(FA_CCACHE_PROGRAM)
    # In CI one cache covers the same sources in several folders: the build tree's and those that a wheel is built from.
    if("$ENV{CI}" STREQUAL "true")
      set(fa_ccache_folders CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1)
    endif()
    # ccache looks at the sources of precompiled headers, not at the result.
    set(fa_ccache ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
                  ${fa_ccache_folders} ${FA_CCACHE_PROGRAM})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${fa_ccache})
    set(CMAKE_C_COMPILER_LAUNCHER ${fa_ccache})
  endif()
endif()
