#!/bin/sh
# x87.sh LIBRARY: the library has no instruction of the x87 unit, whose control word and flags no call looks at [F195].
set -eu
export LC_ALL=C
used=$("$OBJDUMP" -d --no-show-raw-insn "$1" | awk -F'\t' '$2 ~ /^f/' | head -n 5)
[ -z "$used" ] || { echo "the x87 unit is used, src/core/thread_state.cpp switches SSE alone:"; echo "$used"; exit 1; }
