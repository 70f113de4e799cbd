# fa_null_driver: a libcuda.so.1, in a separate folder, that does nothing, allocates nothing and never fails.
include_guard(GLOBAL)
add_library(fa_null_driver SHARED ${PROJECT_SOURCE_DIR}/bench/null_driver.cpp)
target_compile_features(fa_null_driver PRIVATE cxx_std_20)
target_include_directories(fa_null_driver PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(fa_null_driver PRIVATE fa_flags)
set_target_properties(fa_null_driver PROPERTIES OUTPUT_NAME cuda SOVERSION 1
                                                LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/null_driver)
