#!/bin/sh
# pkg_config.sh PREFIX: a C program built with the flags of fa.pc runs.
set -eu
export PKG_CONFIG_PATH="$1/$LIBDIR/pkgconfig" LD_LIBRARY_PATH="$1/$LIBDIR"
# shellcheck disable=SC2046 # the flags are several words
"$CC" -std=c99 -Wall -Wextra -pedantic -Werror -o "$WORK/pkg_config_client" "$SOURCE/tests/abi/client.c" \
  $(pkg-config --cflags --libs fa) -lm
"$WORK/pkg_config_client"
pkg-config --exact-version="$(sed -n 's/^#define FA_VERSION_STRING "\(.*\)"/\1/p' "$SOURCE/include/fa.h")" fa
