# The files that `cmake --install` installs. Debian's libaugeas-dev owns fa.h, libfa.so and libfa.a in the common folders, so ours
# are in separate folders, which the CMake and pkg-config packages name: #include <fa.h> and -lfa work through them.
#
#   lib/libfa.so.0          the library (component runtime)
#   lib/libfa/libfa.so      the link that -lfa finds (component development, as all below)
#   include/libfa/fa.h      the header, and fa.hpp
#   lib/cmake/fa/           find_package(fa) -> fa::fa
#   lib/pkgconfig/fa.pc
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(fa_private_include ${CMAKE_INSTALL_INCLUDEDIR}/libfa)
set(fa_private_lib ${CMAKE_INSTALL_LIBDIR}/libfa)
set(fa_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fa)

install(
  TARGETS fa
  EXPORT fa_targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_SKIP
  ARCHIVE DESTINATION ${fa_private_lib} COMPONENT development
  INCLUDES DESTINATION ${fa_private_include})

file(GLOB fa_public_headers ${PROJECT_SOURCE_DIR}/include/fa*.h ${PROJECT_SOURCE_DIR}/include/fa*.hpp)
install(FILES ${fa_public_headers} DESTINATION ${fa_private_include} COMPONENT development)

get_target_property(fa_type fa TYPE)
if(fa_type STREQUAL "SHARED_LIBRARY")
  set(fa_link ${PROJECT_BINARY_DIR}/install/libfa.so)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/install)
  file(CREATE_LINK ../libfa.so.${FA_ABI_VERSION} ${fa_link} SYMBOLIC)
  install(FILES ${fa_link} DESTINATION ${fa_private_lib} COMPONENT development)
  set(FA_PC_LIBS_PRIVATE "")
else()
  set(FA_PC_LIBS_PRIVATE " -lstdc++ -lm -ldl -pthread")
endif()

install(
  EXPORT fa_targets
  NAMESPACE fa::
  FILE fa-targets.cmake
  DESTINATION ${fa_cmake_dir}
  COMPONENT development)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/fa-config.cmake.in ${PROJECT_BINARY_DIR}/install/fa-config.cmake
                              INSTALL_DESTINATION ${fa_cmake_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/install/fa-config-version.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/install/fa-config.cmake ${PROJECT_BINARY_DIR}/install/fa-config-version.cmake
  DESTINATION ${fa_cmake_dir}
  COMPONENT development)

# fa.pc finds its prefix from its own folder, so the tree may be moved; absolute folders (as some distributions choose) stay.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(FA_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH fa_up ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" fa_up "${fa_up}")
  set(FA_PC_PREFIX "\${pcfiledir}/${fa_up}")
endif()
cmake_path(APPEND FA_PC_INCLUDEDIR "\${prefix}" "${fa_private_include}")
cmake_path(APPEND FA_PC_LIBDIR "\${prefix}" "${fa_private_lib}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/fa.pc.in ${PROJECT_BINARY_DIR}/install/fa.pc @ONLY)
install(
  FILES ${PROJECT_BINARY_DIR}/install/fa.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT development)

# The pages, and the files that they refer to. A source distribution may lack some.
set(fa_doc_dir ${CMAKE_INSTALL_DATAROOTDIR}/doc/libfa)
file(GLOB fa_pages ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md)
install(FILES ${fa_pages} DESTINATION ${fa_doc_dir} COMPONENT development)
foreach(folder docs examples)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${folder})
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${fa_doc_dir} COMPONENT development)
  endif()
endforeach()

# Programs (the tool) find the library relative to themselves, wherever the prefix is moved.
file(RELATIVE_PATH fa_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set(CMAKE_INSTALL_RPATH "$ORIGIN/${fa_bin_to_lib}")
