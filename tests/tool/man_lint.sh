#!/bin/sh
# Formats every man page with all warnings on: man_lint.sh FOLDER. Any warning is a failure; 77 when there is no formatter.
set -u
folder=$1
found=no
status=0
for page in "$folder"/man1/*.1 "$folder"/man3/*.3; do
  [ -s "$page" ] || { echo "$page: missing"; exit 1; }
  if command -v groff >/dev/null; then
    found=yes
    warnings=$(groff -man -ww -rHY=0 -Tutf8 -Kutf8 "$page" 2>&1 >/dev/null | grep -v "cannot adjust line\|can't break line")
    [ -z "$warnings" ] || { echo "$warnings"; status=1; }
  fi
  if command -v mandoc >/dev/null; then
    found=yes
    mandoc -Tlint -Wwarning "$page" | grep -v "missing date" && status=1
  fi
done
[ "$found" = yes ] || exit 77
exit $status
