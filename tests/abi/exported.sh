#!/bin/sh
# exported.sh LIBRARY LIST HEADER: the library exports exactly the versioned symbols of LIST, a Debian symbols file, which are the functions of
# HEADER.
# [F66]
set -eu
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

"$NM" -D --with-symbol-versions --defined-only "$1" | awk '{ print $NF }' | sort >"$work/exported"
[ -s "$work/exported" ]
sed -n 's/^ FA_0@FA_0 .*/FA_0/p; s/^ \(fa_[a-z_]*\)@FA_0 .*/\1@@FA_0/p' "$2" | sort >"$work/listed"
if ! diff -u "$work/listed" "$work/exported"; then
  echo "The exported symbols differ from $2 (+ is exported, - is missing)."
  echo "A symbol once released is never taken away; a new one belongs into fa.h and that list."
  exit 1
fi

sed -n 's/^FA_API .*[ *]\(fa_[a-z_]*\)(.*/\1@@FA_0/p' "$3" | sort >"$work/declared"
grep -v '^FA_0$' "$work/listed" | diff -u "$work/declared" - || { echo "fa.h declares other functions than $2 lists."; exit 1; }
