#!/bin/sh
# The wheel of a build: made, installed into a new virtual environment, and used there.
# Usage: wheel.sh PYTHON BUILD PROGRAM FOLDER; PROGRAM is emulator_kernel_test. 77 where pip or its packages are missing.
set -eu
python=$1 build=$2 program=$3 folder=$4
fail() {
  echo "$1" >&2
  exit 1
}
rm -rf "$folder"
mkdir -p "$folder"
"$python" -m venv "$folder/environment" || { echo "skipped: $python -m venv does not work" && exit 77; }
pip="$folder/environment/bin/python -m pip --quiet --disable-pip-version-check"
$pip download --no-deps --dest "$folder/tools" 'setuptools>=77' || { echo "skipped: pip cannot fetch setuptools" && exit 77; }
mkdir "$folder/stage" # not the script's own
sh "$(dirname "$0")/../../packaging/wheel.sh" "$build" "$folder" "$folder/environment/bin/python"
[ -d "$folder/stage" ] || fail "the script has deleted a folder that it did not make"
wheel=$(ls "$folder"/fa_emu-*-py3-none-linux_*.whl)
$pip install --no-deps --no-index "$wheel"
cd /
outside() { env -i PATH="$folder/environment/bin:/usr/bin:/bin" FA_EMU_QUIET=1 "$@"; }
outside fa-emu --device sm_80 -- "$program" --gtest_filter='Kernels.VectorAdd:Kernels.BlockSum' ||
  fail "fa-emu of the wheel did not run a program"
[ "$(outside python -m fa_emu --help)" = "$(outside fa-emu --help)" ] || fail "python -m fa_emu is not fa-emu"
outside fa-emu-timeline --help >/dev/null || fail "fa-emu-timeline of the wheel does not run"
outside fa-emu -- sh -c '"$TRITON_PTXAS_PATH" --version' >/dev/null || fail "fa-emu-ptxas of the wheel does not run"
library=$(outside python -c 'import fa_emu; print(fa_emu.FOLDER / "libcuda.so.1")')
[ -f "$library" ] || fail "there is no $library"
outside fa-emu --nonsense true 2>/dev/null && fail "an unknown option was taken"
basename "$wheel"
