#!/bin/sh
# imports.sh LIBRARY: the library needs nothing but libc, libm, libstdc++ and libgcc, and no symbol of anyone else. It never
# aborts, prints to the standard output, or reads the environment of a set-user-ID program. [F54] [F55] [F57]
set -eu
dynamic=$("$READELF" -dW "$1")
for needed in $(echo "$dynamic" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
  case $needed in
    libc.so.6 | libm.so.6 | libstdc++.so.6 | libgcc_s.so.1 | ld-linux*.so.*) ;;
    *) echo "needs $needed"; exit 1 ;;
  esac
done
undefined=$("$NM" -D --with-symbol-versions --undefined-only "$1")
unexpected=$(echo "$undefined" | awk '$1 == "U" { print $NF }' |
  grep -Ev '@(GLIBC|GLIBCXX|CXXABI|GCC)_[0-9.]+$' || true)
[ -z "$unexpected" ] || { echo "imports: $unexpected"; exit 1; }
for word in abort printf __printf_chk __vprintf_chk puts putchar exit getenv; do
  if echo "$undefined" | grep -Eq " U ${word}(@|\$)"; then
    echo "imports $word: the library never aborts, never prints to the standard output, and reads variables by secure_getenv"
    exit 1
  fi
done
