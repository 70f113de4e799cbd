#!/bin/sh
# load.sh BUILD EMULATOR TOOL CUDA: a library with FA_KERNELS=load is built without a compiler for GPUs, and runs the images of
# another build (BUILD's, by a CUDA such as 13000) where they are. Errors name an image that is missing, not for this driver, or
# another build's [F201].
set -eu
images=$1/kernels build=$WORK/load emulator=$2 tool=$3 cuda=$4
folder=$build/opt/kernels
rm -rf "$build"
mkdir -p "$folder"
configure() {
  "$CMAKE" -S "$SOURCE" -B "$build" -DCMAKE_BUILD_TYPE=Release -DFA_KERNELS=load -DFA_ARCHS="75;80;90" -DFA_NVCC=/nowhere/nvcc \
    -DFA_BUILD_TESTS=OFF -DFA_BUILD_TOOL=OFF -DFA_BUILD_BENCH=OFF -DFA_BUILD_EXAMPLES=OFF -DFA_BUILD_EMULATOR=OFF \
    -DCMAKE_CXX_FLAGS_RELEASE=-O0 "$@" >"$build/configure.log" 2>&1 # optimising it takes a minute
}
if configure -DFA_KERNEL_DIR=opt/kernels; then
  echo "a folder that is not absolute was taken"
  exit 1
fi
grep -q "FA_KERNEL_DIR is opt/kernels" "$build/configure.log" || { cat "$build/configure.log" && exit 1; }
configure -DFA_KERNEL_DIR="$folder" || { cat "$build/configure.log" && exit 1; }
"$CMAKE" --build "$build" -j "$(nproc)" >"$build/build.log" || { cat "$build/build.log" && exit 1; }
[ -z "$(find "$build" -name '*.fatbin')" ] || { echo "images were compiled" && exit 1; }

export FA_EMU_DEVICE=sm_80 FA_EMU_QUIET=1 TEST_EMULATED=1 LD_LIBRARY_PATH="$build/src:$emulator"
attention() { "$tool" run --case 'b=1 sq=5 sk=9 hq=1 hkv=1 d=16 q=f32' "$@" 2>&1; }
# says COMMAND... -- WORD...: its output has all of these.
says() {
  command=
  while [ "$1" != -- ]; do command="$command $1" && shift; done
  shift
  text=$(eval "$command" 2>&1) || true
  for word; do
    case $text in *"$word"*) ;; *) echo "$command: '$word' is not in: $text" && exit 1 ;; esac
  done
}
image=$folder/sm_80.simt.f32.64.fatbin
fails() { if attention "$@" >"$build/out"; then echo "$*: it ran" && cat "$build/out" && exit 1; fi; }

# Nothing is there: not available, no device; an auto op waits for them, and calls with the host's memory run.
fails --device cuda
says attention --device cuda -- "NO_DEVICE" "$folder/sm_80." "cannot be opened: No such file" FA_KERNEL_PATH
"$CC" -std=gnu99 -o "$build/waits" -I"$SOURCE/include" "$SOURCE/tests/install/load/waits.c" "$build/src/libfa.so" -ldl
says FA_VERBOSE=dispatch "$build/waits" "false" -- "cuda.sm_80.simt chosen" "is not ready" "cpu." "the command failed"
says "$build/waits" "'cp $images/sm_80.* $folder'" -- "waited"
rm "$folder"/*
says "$tool" info -- "cuda.sm_80.simt" "$folder/sm_80.simt" "cannot be opened: No such file" "code for sm_90a does not run"

# All are there; nothing is asked of other architectures.
cp "$images"/sm_80.* "$folder"
attention --device cuda >/dev/null
says "$tool" info -- "cuda.sm_80.simt" "FA_KERNELS=load"

# The driver may be older than the CUDA of the images, which each image names: by a minor version alone.
export FA_EMU_DRIVER=12000
if [ "$cuda" -ge 13000 ]; then
  fails --device cuda
  says attention --device cuda -- "NO_DEVICE" "sm_80 are of CUDA 13." "the driver, for CUDA 12.0" "580 or later"
else
  attention --device cuda >/dev/null
fi
unset FA_EMU_DRIVER

# One is missing, cut off, another build's.
cp "$image" "$build/whole"
head -c 1000 "$build/whole" >"$image"
fails --device cuda
says attention --device cuda -- "NO_DEVICE" "$image is cut off" FA_KERNEL_PATH
cp "$SOURCE/emulator/tests/driver/images/select.fatbin" "$image"
fails --device cuda
says attention --device cuda -- "NO_DEVICE" "another build" fa_build_
rm "$image"
fails --device cuda
says attention --device cuda -- "NO_DEVICE" "$image cannot be opened"

# A GPU whose own are not there runs the next best: PTX of an older architecture.
cp "$build/whole" "$image"
export FA_EMU_DEVICE=sm_90a
attention --device cuda >/dev/null
says FA_VERBOSE=dispatch attention --device cuda -- "cuda.sm_90a.simt skipped" "$folder/sm_90a.simt" "cuda.sm_80.simt chosen"
