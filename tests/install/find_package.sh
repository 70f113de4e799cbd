#!/bin/sh
# find_package.sh PREFIX: a CMake project that finds the package, in C and in C++, and versions that it must not find.
set -eu
build=$WORK/find_package
rm -rf "$build"
"$CMAKE" -S "$SOURCE/tests/install/find_package" -B "$build" -DCMAKE_PREFIX_PATH="$1" -DCLIENT="$SOURCE/tests/abi/client.c" \
  -DMINIMAL="$SOURCE/examples/minimal.c"
"$CMAKE" --build "$build"
"$build/client"
"$build/minimal"
"$build/raii"
for version in 99.0 0.0.9; do
  if "$CMAKE" -S "$SOURCE/tests/install/find_package" -B "$build/wrong" -DCMAKE_PREFIX_PATH="$1" -DVERSION=$version \
    >"$build/wrong.log" 2>&1; then
    echo "find_package(fa $version) succeeded"
    exit 1
  fi
done
if "$CMAKE" -S "$SOURCE/tests/install/find_package" -B "$build/wrong" -DCMAKE_PREFIX_PATH="$1" -DVERSION="0.1;COMPONENTS;static" \
  >"$build/wrong.log" 2>&1; then
  echo "find_package(fa COMPONENTS static) succeeded"
  exit 1
fi
tr -s '\n ' ' ' <"$build/wrong.log" | grep -q "has no component static" || { echo "not said why" && cat "$build/wrong.log" && exit 1; }
