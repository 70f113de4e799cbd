#!/bin/sh
# soname.sh LIBRARY SONAME: the library's soname is SONAME; .1 belongs to Augeas and is never used. [F67]
set -eu
got=$("$READELF" -d "$1" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[ "$got" = "$2" ] || { echo "soname is '$got', expected '$2'"; exit 1; }
