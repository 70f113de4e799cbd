#!/bin/sh
# development.sh: headers and packages are installed from a build tree in which nothing was built, man pages included.
set -eu
build=$WORK/development prefix=$WORK/development_installed
rm -rf "$build" "$prefix"
"$CMAKE" -S "$SOURCE" -B "$build" -DFA_KERNELS=off -DFA_BUILD_TESTS=OFF -DFA_BUILD_BENCH=OFF -DFA_BUILD_EXAMPLES=OFF \
  -DFA_BUILD_EMULATOR=OFF >"$WORK/development.log" 2>&1 || { cat "$WORK/development.log" && exit 1; }
"$CMAKE" --install "$build" --prefix "$prefix" --component development >"$WORK/development.log" 2>&1 ||
  { cat "$WORK/development.log" && exit 1; }
for file in include/libfa/fa.h "$LIBDIR/pkgconfig/fa.pc" "$LIBDIR/cmake/fa/fa-config.cmake" "$LIBDIR/libfa/libfa.so"; do
  [ -e "$prefix/$file" ] || [ -L "$prefix/$file" ] || { echo "not installed: $file" && exit 1; }
done
