#!/bin/sh
# support/instructions.txt against the ptxas next to nvcc, which NVCC names. Usage: support_ptxas.sh PYTHON MAKE_TABLES
set -eu
ptxas=$(dirname "${NVCC:-/none/nvcc}")/ptxas
[ -x "$ptxas" ] || { echo "skipped: there is no ptxas next to nvcc" && exit 77; }
exec "$1" "$2" --check --ptxas "$ptxas"
