# The plug-ins' tests, in stock binaries of their hosts, which are those of x86-64 and without instruments. Those in Python alone can load
# a runtime of sanitizers first.
#
#   fa_plugin_python(HOST VARIABLE MODULE...)   a Python with these modules; empty, and a message, where the tests are left out
#   fa_plugin_tests(HOST TIMEOUT NAME...)       the properties of integrations.HOST.NAME, which need the plug-in that .build builds
function(fa_plugin_python host variable)
  set(${variable} "" PARENT_SCOPE)
  get_target_property(library_type fa TYPE)
  if(NOT library_type STREQUAL "SHARED_LIBRARY" OR FA_COVERAGE OR NOT FA_INSTALL OR CMAKE_CROSSCOMPILING
     OR NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" OR (FA_SANITIZE AND NOT "${host} ${FA_SANITIZE}" MATCHES "onnxruntime address"))
    return()
  endif()
  fa_find_python(python 3.10 ${ARGN})
  if(python)
    set(${variable} ${python} -B PARENT_SCOPE)
  else()
    list(JOIN ARGN ", " modules)
    message(STATUS "integrations.${host} tests: left out: there is no Python with ${modules} (scripts/test.sh installs it)")
  endif()
endfunction()

function(fa_plugin_tests host timeout)
  list(TRANSFORM ARGN PREPEND integrations.${host}. OUTPUT_VARIABLE tests)
  set_tests_properties(integrations.${host}.build PROPERTIES FIXTURES_SETUP ${host}_plugin)
  set_tests_properties(${tests} PROPERTIES FIXTURES_REQUIRED ${host}_plugin)
  list(TRANSFORM "FA_VERBOSE;FA_FORCE_KERNEL;FA_MAX_ARCH;FA_NUM_THREADS;GGML_BACKEND_PATH" APPEND "=unset:" OUTPUT_VARIABLE unset)
  set_tests_properties(integrations.${host}.build ${tests} PROPERTIES LABELS integrations SKIP_RETURN_CODE 77 TIMEOUT ${timeout}
                                                                      ENVIRONMENT_MODIFICATION "${unset}")
endfunction()
