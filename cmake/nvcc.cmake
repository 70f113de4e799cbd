# nvcc for tests that compile kernels: one of a CUDA toolkit that is there, or 13.0 from PyPI, fetched by the test
# nvcc.fetch into the build tree.
#
#   fa_add_nvcc_test(images.nvcc sh script.sh)   NVCC in its environment names the compiler; skipped where it cannot be had
find_program(FA_NVCC nvcc HINTS /usr/local/cuda/bin DOC "nvcc for tests; empty: fetched from PyPI")
mark_as_advanced(FA_NVCC)

function(fa_add_nvcc_test name)
  if(FA_NVCC)
    set(nvcc ${FA_NVCC})
  else()
    set(folder ${PROJECT_BINARY_DIR}/nvcc)
    set(nvcc ${folder}/nvidia/cu13/bin/nvcc)
    get_property(fetched GLOBAL PROPERTY fa_nvcc_fetch)
    if(NOT fetched)
      add_test(NAME nvcc.fetch COMMAND sh ${PROJECT_SOURCE_DIR}/scripts/fetch_nvcc.sh ${folder})
      set_tests_properties(nvcc.fetch PROPERTIES LABELS nvcc SKIP_RETURN_CODE 77 FIXTURES_SETUP fa_nvcc TIMEOUT 900)
      set_property(GLOBAL PROPERTY fa_nvcc_fetch ON)
    endif()
  endif()
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS "emulator;nvcc" ENVIRONMENT NVCC=${nvcc} SKIP_RETURN_CODE 77
                                          FIXTURES_REQUIRED fa_nvcc)
endfunction()
