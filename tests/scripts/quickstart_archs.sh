#!/usr/bin/env bash
# The GPUs that scripts/quickstart.sh builds for, as a stand-in for nvidia-smi reports them: quickstart_archs.sh SOURCE
set -euo pipefail
source=$1
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
for program in bash dirname paste readlink sh sort; do # nothing else, so not this machine's nvidia-smi
  ln -s "$(command -v "$program")" "$folder/$program"
done
status=0

# expect_cuda CUDA: the printed FA_CUDA.
expect_cuda() {
  local cuda
  cuda=$(PATH=$folder FA_JOBS=1 bash "$source/scripts/quickstart.sh" --print-cuda)
  [ "$cuda" = "$1" ] || { echo "nvidia-smi: '${smi_lines-absent}'; printed '$cuda', expected '$1'" && status=1; }
}

# expect ARCHS TEXT: the output, and a text in the line of the reason, "" for no such line.
expect() {
  local archs said result=0
  archs=$(PATH=$folder FA_JOBS=1 bash "$source/scripts/quickstart.sh" --print-archs 2>"$folder/said") || result=$?
  said=$(<"$folder/said")
  if [[ $result != 0 || $archs != "$1" || $said != *"$2"* || (-z $2 && -n $said) ]]; then
    echo "nvidia-smi: '${smi_lines-absent}'; printed '$archs', said '$said', exit status $result; expected '$1', saying '$2'"
    status=1
  fi
}

# smi STATUS LINE...: the exit status and the output of nvidia-smi from here on.
smi() {
  export smi_status=$1 smi_lines
  smi_lines=$(shift && printf '%s\n' "$@")
}

expect "" "no nvidia-smi"
expect_cuda ""
cat >"$folder/nvidia-smi" <<'TEXT'
#!/bin/sh
case $* in
  "--query-gpu=compute_cap --format=csv,noheader" | "--query-gpu=driver_version --format=csv,noheader") ;;
  *) exit 2 ;;
esac
echo "$smi_lines"
exit "$smi_status"
TEXT
chmod +x "$folder/nvidia-smi"

smi 9 "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver." "Make sure that it runs."
expect "" "nvidia-smi fails (exit status 9): not looking for a GPU: NVIDIA-SMI has failed"
for capability in "[N/A]" "" 7.0; do
  smi 0 "$capability"
  expect "" "'$capability': kernels need 7.5 or later"
done
while read -r capability arch; do
  smi 0 "$capability"
  expect "$arch" ""
done <<'TEXT'
7.5 75
8.6 86
8.8 86
9.0 90a
10.3 103a
12.0 120
TEXT
smi 0 8.6 9.0
expect "86;90a" ""
smi 0 13.0 12.1 11.0 10.0 8.9 8.7 8.0 8.8 8.6 8.6
expect "80;86;87;89;100a;110;120" ""
smi 0 7.2 8.0 # one of the two is built for
expect "80" "'7.2'"
smi 0 535.183.01 535.183.01
expect_cuda 12
smi 0 570.86
expect_cuda 12
smi 0 580.65.06
expect_cuda ""
smi 9 "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
expect_cuda ""

# By sh, and through a symbolic link from elsewhere, it is the same script, without a complaint.
smi 0 8.6
ln -s "$source/scripts/quickstart.sh" "$folder/link"
for command in "sh $source/scripts/quickstart.sh" "$folder/link" "sh $folder/link"; do
  # shellcheck disable=SC2086 # a program and its argument
  said=$(cd / && PATH=$folder FA_JOBS=1 $command --print-archs 2>&1) || said="$said (exit status $?)"
  [ "$said" = 86 ] || { echo "$command: '$said', expected 86" && status=1; }
done
exit $status
