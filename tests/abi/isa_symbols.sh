#!/bin/sh
# isa_symbols.sh LIST: no object compiled for an ISA beyond the baseline holds a symbol that the linker merges (weak, COMDAT
# or unique). Were std::max, say, such a symbol there, the linker might keep its AVX-512 copy for the whole program. And no object asks
# the compiler's run-time library which CPU this is: zig's does not know.
set -eu
export LC_ALL=C
found=0
while read -r object; do
  if "$NM" "$object" | grep -E '__cpu_(model|features2|indicator_init)'; then
    echo "$object uses __builtin_cpu_supports; src/cpu/features.cpp asks the CPU"
    exit 1
  fi
  case $object in */isa/*) ;; *) continue ;; esac
  found=$((found + 1))
  shared=$("$NM" -C "$object" | grep -E '^[0-9a-f]+ [WVu] ' || true)
  if [ -n "$shared" ]; then
    echo "$object defines symbols that the linker may merge with others' copies:"
    echo "$shared"
    exit 1
  fi
done <"$1"
[ "$found" -gt 0 ] || { echo "no ISA object in $1"; exit 1; }
echo "$found ISA objects looked at"
