#!/bin/sh
# ncu on one kernel: scripts/profile.sh KERNEL SHAPE, as in scripts/profile.sh cuda.sm_90a.mma 4,16,16,4096,4096,128
exec python3 "$(dirname "$(readlink -f "$0")")/../bench/gpu/ncu.py" "$@"
