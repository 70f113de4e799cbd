#!/bin/sh
# Compiles a program with nvcc, which links NVIDIA's runtime into it, and runs it on emulated GPUs of every generation.
# It must print each line that its source has behind "// prints: ".
# Usage: run.sh FA_EMU SOURCE.cu [NVCC'S OPTIONS], with NVCC in the environment
set -u
emu=$1 source=$2
shift 2
if [ ! -x "${NVCC:-}" ]; then
  echo "skipped: no nvcc (see the test nvcc.fetch)"
  exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
# PyPI's toolkit has its libraries in lib, where its nvcc does not look.
"$NVCC" -std=c++17 -L"$(dirname "$NVCC")/../lib" "$@" "$source" -o "$work/program" || exit 1
status=0
for device in sm_75 sm_80 sm_90a sm_100a sm_120a; do
  "$emu" --device $device --quiet -- "$work/program" >"$work/printed" || {
    echo "failed on $device: $?"
    status=1
  }
  cat "$work/printed"
  sed -n 's|^// prints: ||p' "$source" >"$work/expected"
  while IFS= read -r line; do
    grep -qxF -- "$line" "$work/printed" || {
      echo "on $device it did not print: $line"
      status=1
    }
  done <"$work/expected"
done
exit $status
