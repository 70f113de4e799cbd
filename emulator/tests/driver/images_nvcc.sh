#!/bin/sh
# The committed images are nvcc's output for their source: the same files with the same code, compressed in every mode.
# Usage: images_nvcc.sh FOLDER, with NVCC in the environment
set -u
folder=$1
if [ ! -x "${NVCC:-}" ]; then
  echo "skipped: no nvcc (see the test nvcc.fetch)"
  exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cp "$folder/select.cu" "$folder/make.sh" "$work" || exit 1
sh "$work/make.sh" "$NVCC" || exit 1
for image in "$folder"/*.fatbin; do
  name=$(basename "$image")
  # Names of temporary files and the like differ: sizes to within 64 bytes.
  old=$(wc -c <"$image") new=$(wc -c <"$work/$name")
  difference=$((old - new))
  if [ "${difference#-}" -gt 64 ]; then
    echo "$name: $old bytes here, $new from nvcc"
    exit 1
  fi
done
echo "every image is as nvcc makes it"
