#!/bin/sh
# Makes the images of this folder. Usage: make.sh NVCC (of CUDA 13.0)
set -eu
cd "$(dirname "$0")"
code() { echo "-gencode arch=compute_$1,code=[compute_$1,sm_$1]"; }
for mode in none size speed balance; do
  "$1" -fatbin -compress-mode=$mode $(code 75) $(code 90a) select.cu -o mode-$mode.fatbin
done
"$1" -fatbin -compress-mode=size $(code 75) $(code 80) -gencode arch=compute_86,code=sm_86 $(code 90a) \
  -gencode arch=compute_90,code=compute_90 select.cu -o select.fatbin
"$1" -fatbin -compress-mode=size $(code 90a) select.cu -o only-90a.fatbin
"$1" -fatbin -compress-mode=size -gencode arch=compute_80,code=sm_80 select.cu -o machine-code.fatbin
"$1" -cubin -arch=sm_80 select.cu -o select.cubin
