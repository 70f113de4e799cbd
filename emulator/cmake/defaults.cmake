# How the emulator is compiled: on its own as well as in libfa's tree, whose settings it takes over where they are there.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(PROJECT_IS_TOP_LEVEL)
  get_property(emu_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(NOT emu_multi_config AND NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  find_program(EMU_CCACHE ccache)
  mark_as_advanced(EMU_CCACHE)
  if(EMU_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # ccache looks at the sources of precompiled headers, not at the result.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${EMU_CCACHE})
  endif()
endif()

# emu_flags: warnings and instrumentation.
add_library(emu_flags INTERFACE)
target_compile_options(
  emu_flags
  INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wundef -Wvla -Wpointer-arith -Wformat=2 -Wimplicit-fallthrough
            -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi
            # A switch over an enumeration has no default: a case that it lacks does not compile.
            -Werror=switch
            $<$<BOOL:${EMU_WERROR}>:-Werror>)
if(EMU_SANITIZE)
  target_compile_options(emu_flags INTERFACE -fsanitize=${EMU_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(emu_flags INTERFACE -fsanitize=${EMU_SANITIZE})
  if(EMU_SANITIZE MATCHES "undefined")
    target_compile_options(emu_flags INTERFACE -fno-sanitize-recover=all)
  endif()
endif()
