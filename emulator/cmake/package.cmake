# The CMake package: find_package(fa-emu) gives its user fa_add_emulated_test (emulated.cmake).
include(CMakePackageConfigHelpers)
set(fa_emulator_package ${CMAKE_INSTALL_LIBDIR}/cmake/fa-emu)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/fa-emu-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/fa-emu-config.cmake
                              INSTALL_DESTINATION ${fa_emulator_package} PATH_VARS fa_emulator_folder)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/fa-emu-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/fa-emu-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/fa-emu-config-version.cmake
              ${CMAKE_CURRENT_LIST_DIR}/emulated.cmake DESTINATION ${fa_emulator_package} COMPONENT emulator)
