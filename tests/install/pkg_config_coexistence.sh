#!/bin/sh
# pkg_config_coexistence.sh PREFIX: one program built with the flags of both fa.pc and augeas.pc, in either order.
set -eu
export PKG_CONFIG_PATH="$1/$LIBDIR/pkgconfig" LD_LIBRARY_PATH="$1/$LIBDIR"
pkg-config --exists augeas || { echo "needs the Debian package libaugeas-dev: scripts/test.sh installs it"; exit 1; }
program=$WORK/coexistence
"$CC" -c -o "$program.neighbour.o" "$SOURCE/tests/abi/neighbour.c"
for packages in "fa augeas" "augeas fa"; do
  # shellcheck disable=SC2046,SC2086 # the flags and the packages are several words
  "$CC" -std=c99 -Wall -Werror -o "$program" "$SOURCE/tests/abi/coexistence.c" "$program.neighbour.o" \
    $(pkg-config --cflags --libs $packages) -l:libfa.so.1
  "$program"
done
