#!/bin/sh
# The CMake package of a build: installed, and used by a project outside of it, whose test it runs as a device.
# Usage: consumer.sh CMAKE CTEST CXX_COMPILER BUILD FOLDER
set -eu
cmake=$1 ctest=$2 compiler=$3 build=$4 folder=$5
fail() {
  echo "$1" >&2
  exit 1
}
rm -rf "$folder"
mkdir -p "$folder/source"
"$cmake" --install "$build" --component emulator --prefix "$folder/prefix" >"$folder/install.log"
cat >"$folder/source/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.24)
project(consumer LANGUAGES CXX)
find_package(fa-emu REQUIRED)
enable_testing()
add_executable(device_count device_count.cpp)
target_link_libraries(device_count PRIVATE ${CMAKE_DL_LIBS})
fa_add_emulated_test(a_target sm_90a,sm_80 device_count 2 CHECK SEED 7 LABELS unit)
fa_add_emulated_test(a_path sm_80 $<TARGET_FILE:device_count> 1)
END
cat >"$folder/source/device_count.cpp" <<'END'
#include <dlfcn.h>

#include <cstdlib>

int main(int, char **arguments) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) return 2;
  auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
  auto count_of = reinterpret_cast<int (*)(int *)>(dlsym(library, "cuDeviceGetCount"));
  int count = 0;
  if (init(0) != 0 || count_of(&count) != 0) return 3;
  return count == std::atoi(arguments[1]) ? 0 : 1;
}
END
"$cmake" -S "$folder/source" -B "$folder/build" -DCMAKE_PREFIX_PATH="$folder/prefix" -DCMAKE_CXX_COMPILER="$compiler" \
  >"$folder/configure.log" 2>&1 || { cat "$folder/configure.log" && fail "a project with find_package(fa-emu) is not configured"; }
"$cmake" --build "$folder/build" >"$folder/build.log" 2>&1 || { cat "$folder/build.log" && fail "it is not built"; }
"$ctest" --test-dir "$folder/build" --output-on-failure >"$folder/tests.log" ||
  { cat "$folder/tests.log" && fail "its tests fail"; }
grep -q '100% tests passed, 0 tests failed out of 2' "$folder/tests.log" || fail "not both of its tests were run"
