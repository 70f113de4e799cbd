#!/bin/sh
# compile_kernel.sh NAME strict|lenient COMMAND...: runs nvcc, keeps ptxas' report of each entry point in NAME.ptxas
# (in the working directory), and does not let spills, stack frames and wgmma that wait for one another (C75xx) pass
# unseen: an error when strict, else a warning.
set -eu
name=$1
mode=$2
shift 2
if ! "$@" >"$name.log" 2>&1; then
  cat "$name.log" >&2
  exit 1
fi
awk '/Compiling entry function/ { entry = $0; sub(/^[^\047]*\047/, "", entry); sub(/\047.*/, "", entry) }
     /\(C75[0-9][0-9]\)/ { serialised = $0; sub(/^[^(]*/, "", serialised); print serialised }
     /bytes stack frame/ { stack = $1; stores = $5; loads = $9 }
     /Used [0-9]+ registers/ { used = $0; sub(/.*Used /, "", used)
                               printf "%s: %s, stack %s, spill stores %s, spill loads %s\n", entry, used, stack, stores, loads }' \
  "$name.log" >"$name.ptxas"
grep -v -e '^ptxas info' -e 'bytes stack frame' -e '^ *$' "$name.log" >&2 || true
rm -f "$name.log"
slow=$(grep -v 'stack 0, spill stores 0, spill loads 0$' "$name.ptxas" || true)
if [ -n "$slow" ]; then
  echo "$name: registers are spilled, there is a stack frame, or products of warpgroups wait for one another:" >&2
  echo "$slow" >&2
  [ "$mode" = lenient ]
fi
