#!/bin/sh
# Whether everything that a GPU session needs is there; scripts/preflight.sh --help.
exec python3 "$(dirname "$(readlink -f "$0")")/../bench/gpu/preflight.py" "$@"
