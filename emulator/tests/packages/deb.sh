#!/bin/sh
# The Debian package of a build: made, unpacked, and used there, in an environment that has nothing else.
# Usage: deb.sh CPACK BUILD PROGRAM FOLDER; PROGRAM is emulator_kernel_test. 77 where dpkg's tools are missing.
set -eu
cpack=$1 build=$2 program=$3 folder=$4
for tool in dpkg-deb dpkg-shlibdeps; do
  command -v "$tool" >/dev/null || { echo "skipped: there is no $tool (Debian: apt install dpkg-dev)" && exit 77; }
done
fail() {
  echo "$1" >&2
  exit 1
}
rm -rf "$folder"
mkdir -p "$folder"
"$cpack" --config "$build/CPackConfig.cmake" -B "$folder" >"$folder/cpack.log" || { cat "$folder/cpack.log" && exit 1; }
package=$(ls "$folder"/fa-emu_*.deb)
dpkg-deb --field "$package" Package Version Depends
dpkg-deb --field "$package" Depends | grep -q 'libc6 (' || fail "the package does not say which libc6 it needs"
dpkg-deb --extract "$package" "$folder/root"
[ -z "$(find "$folder/root/usr/lib" -maxdepth 2 -name 'libcuda*')" ] || fail "libcuda.so.1 is where the loader looks"
found=$(find "$folder/root" -name 'libcuda.so.1' | grep -cv glibc-hwcaps) || true
[ "$found" = 1 ] || fail "$found libraries instead of 1"
cd /
"$folder/root/usr/bin/fa-emu-timeline" --help >/dev/null || fail "fa-emu-timeline of the package does not run"
"$folder/root/usr/bin/fa-emu" -- sh -c '"$TRITON_PTXAS_PATH" --version' >/dev/null || fail "fa-emu-ptxas of the package does not run"
env -i PATH=/usr/bin:/bin FA_EMU_QUIET=1 "$folder/root/usr/bin/fa-emu" --device sm_80 -- "$program" \
  --gtest_filter='Kernels.VectorAdd:Kernels.BlockSum' || fail "fa-emu of the package did not run a program"
