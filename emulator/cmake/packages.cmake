# Packages of a build: packaging/wheel.sh makes a Python wheel, `cpack --config <build>/CPackConfig.cmake` a .deb. They are for any
# CPU, so that a build for this machine's alone makes none.
if(NOT fa_emulator IN_LIST emu_built)
  install(CODE "message(FATAL_ERROR \"A package needs the builds for every CPU: configure with -DEMU_OPTIMISE=all\")"
          COMPONENT wheel EXCLUDE_FROM_ALL)
  return()
endif()

# The contents of the wheel of packaging/wheel.sh: the library and fa-emu in a folder of the Python package.
file(CONFIGURE OUTPUT VERSION CONTENT "@PROJECT_VERSION@\n" @ONLY)
set(emu_wheel COMPONENT wheel EXCLUDE_FROM_ALL)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/packaging/python/ DESTINATION . ${emu_wheel} PATTERN __pycache__ EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/../LICENSE ${CMAKE_CURRENT_BINARY_DIR}/VERSION
        DESTINATION . ${emu_wheel})
fa_emulator_install(fa_emu/emulator ${emu_wheel})
install(PROGRAMS ${CMAKE_CURRENT_BINARY_DIR}/fa-emu ${CMAKE_CURRENT_BINARY_DIR}/fa-emu-ptxas ${CMAKE_CURRENT_BINARY_DIR}/fa-emu-timeline
        DESTINATION fa_emu/emulator ${emu_wheel})

# The Debian package fa-emu.
install(FILES ${PROJECT_SOURCE_DIR}/packaging/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT emulator)
install(FILES ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT emulator)
set(CPACK_OUTPUT_CONFIG_FILE ${CMAKE_CURRENT_BINARY_DIR}/CPackConfig.cmake)
set(CPACK_SOURCE_GENERATOR "")
set(CPACK_GENERATOR DEB)
set(CPACK_INSTALL_CMAKE_PROJECTS ${CMAKE_CURRENT_BINARY_DIR} fa-emu emulator /)
set(CPACK_PACKAGE_NAME fa-emu)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The libfa developers <libfa@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "CUDA programs without a GPU: the driver's API on the CPU")
set(CPACK_PACKAGE_DESCRIPTION
    "fa-emu runs a program with a libcuda.so.1 that executes PTX on the CPU, as a\n\
device of any compute capability, and watches for races, missing waits and\n\
fences, uninitialised memory and the like. The library is in a separate\n\
folder, where no program takes it for the GPU's driver.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
