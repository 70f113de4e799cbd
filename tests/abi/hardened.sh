#!/bin/sh
# hardened.sh LIBRARY PROCESSOR OPTIMISED: the library is linked and compiled with the flags of cmake/hardening.cmake.
set -eu
export LC_ALL=C
fail() { echo "$1"; exit 1; }

segments=$("$READELF" -lW "$1")
dynamic=$("$READELF" -dW "$1")
imports=$("$NM" -D --undefined-only "$1")
echo "$segments" | grep -q GNU_RELRO || fail "no RELRO segment: relocated memory stays writable"
echo "$dynamic" | grep -Eq 'BIND_NOW|FLAGS_1.*NOW' || fail "no BIND_NOW: the procedure linkage table stays writable"
! echo "$dynamic" | grep -q TEXTREL || fail "TEXTREL: code is writable while it is loaded"
echo "$segments" | grep GNU_STACK | grep -q 'RW ' || fail "the stack is executable"
echo "$imports" | grep -q ' __stack_chk_fail' || fail "no __stack_chk_fail: compiled without -fstack-protector-strong"
if [ "$3" = 1 ]; then
  echo "$imports" | grep -q ' __vsnprintf_chk' || fail "no __vsnprintf_chk: compiled without _FORTIFY_SOURCE"
fi

[ "$2" = x86_64 ] || exit 0
"$READELF" -nW "$1" | grep -q SHSTK || fail "no SHSTK property: the library ends shadow stacks for the whole process"
functions=$("$NM" -D --defined-only "$1" | awk '$2 == "T" { print $3 }' | sed 's/@.*//')
[ -n "$functions" ]
for function in $functions; do
  "$OBJDUMP" -d --no-show-raw-insn --disassemble="$function" "$1" | grep -A1 "<$function.*>:" | grep -q endbr64 ||
    fail "$function does not begin with endbr64: compiled without -fcf-protection"
done
