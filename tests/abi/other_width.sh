#!/bin/sh
# other_width.sh SOURCE WORK: a build for 32 bits stops at once and says why. Needs no 32-bit libraries: nothing is linked.
set -eu
rm -rf "$2"
if "$CMAKE" -S "$1" -B "$2" -DCMAKE_CXX_FLAGS=-m32 -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY -DFA_KERNELS=off >"$2.log" 2>&1; then
  echo "a build for 32 bits was configured"
  exit 1
fi
for words in "64-bit" "pointers have 4 bytes" "-m32"; do
  grep -qe "$words" "$2.log" || { echo "not said: $words"; cat "$2.log"; exit 1; }
done
