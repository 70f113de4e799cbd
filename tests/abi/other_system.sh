#!/bin/sh
# other_system.sh SOURCE WORK: a build for Windows or macOS stops at once and says why. No compiler for them is needed: nothing is
# linked.
set -eu
for pair in "Windows:WSL" "Darwin:macOS"; do
  system=${pair%:*}
  rm -rf "$2"
  if "$CMAKE" -S "$1" -B "$2" -DCMAKE_SYSTEM_NAME="$system" -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY -DFA_KERNELS=off >"$2.log" 2>&1; then
    echo "a build for $system was configured"
    exit 1
  fi
  for words in "libfa is for Linux" "${pair#*:}"; do
    grep -qe "$words" "$2.log" || { echo "not said for $system: $words"; cat "$2.log"; exit 1; }
  done
done
