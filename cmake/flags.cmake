# fa_flags: warnings and instrumentation for our own targets. A target takes them with
#   target_link_libraries(NAME PRIVATE $<BUILD_INTERFACE:fa_flags>)
# so nothing of them reaches an embedding project or an installed package.

add_library(fa_flags INTERFACE)

target_compile_options(
  fa_flags
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wshadow
            -Wundef
            -Wvla
            -Wpointer-arith
            -Wformat=2
            -Wimplicit-fallthrough
            # A switch over an enumeration has no default: a case that it lacks does not compile.
            -Werror=switch
            $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
            $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>
            $<$<COMPILE_LANGUAGE:CXX>:-Wextra-semi>
            $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
            $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
            $<$<BOOL:${FA_WERROR}>:-Werror>
            # No path of the building machine in the binaries: builds in two folders give the same bytes.
            -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)

if(FA_SANITIZE)
  set(fa_sanitize_options -fsanitize=${FA_SANITIZE} -fno-omit-frame-pointer)
  if(FA_SANITIZE MATCHES "undefined")
    list(APPEND fa_sanitize_options -fno-sanitize-recover=all)
  endif()
  target_compile_options(fa_flags INTERFACE ${fa_sanitize_options})
  target_link_options(fa_flags INTERFACE ${fa_sanitize_options})
endif()

if(FA_COVERAGE)
  # For the measured code, src/: counting the tests' own lines would only take time.
  set(fa_coverage_options --coverage -fprofile-abs-path -fprofile-update=atomic)
  target_link_options(fa_flags INTERFACE --coverage)
endif()
