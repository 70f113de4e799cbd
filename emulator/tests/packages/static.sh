#!/bin/sh
# The library as EMU_STATIC links it: it needs nothing but glibc, exports nothing of its dependencies, and runs.
# Usage: static.sh LIBRARY PROGRAM; PROGRAM is emulator_kernel_test. 77 without readelf.
set -eu
library=$1 program=$2
command -v readelf >/dev/null || { echo "skipped: there is no readelf (Debian: apt install binutils)" && exit 77; }
fail() {
  echo "$1" >&2
  exit 1
}
needed=$(readelf --dynamic --wide "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
echo "needs" $needed
for one in $needed; do
  case $one in
    libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | ld-linux*) ;;
    *) fail "it needs $one, which is not glibc's" ;;
  esac
done
exported=$(readelf --dyn-syms --wide "$library" | awk '$5 == "GLOBAL" && $7 != "UND" { print $8 }' | grep -E '^(ZSTD|LZ4|_ZN?K?St)') || true
[ -z "$exported" ] || fail "it exports $exported"
env -i FA_EMU_QUIET=1 FA_EMU_DEVICE=sm_80 LD_LIBRARY_PATH="$(dirname "$library")" "$program" \
  --gtest_filter='Kernels.VectorAdd:Kernels.BlockSum' || fail "a program did not run on it"
