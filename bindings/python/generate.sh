#!/bin/sh
# generate.sh HEADER FOLDER: the Python files that are generated and committed: the types of libfa.capi from fa.h, and the
# optional inputs from schema/. (The module itself is made by SWIG when the package is built.)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 >/dev/null || { echo "skipped: no python3" >&2 && exit 77; }
mkdir -p "$2/libfa"
python3 "$here/generate.py" "$1" >"$2/libfa/capi.pyi"
python3 "$here/../../schema/generate.py" attention >"$2/libfa/attention.py"
exec python3 "$here/../../schema/generate.py" python >"$2/libfa/fields.py"
