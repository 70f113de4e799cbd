# Writes src/C.jl, from fa.h, and src/fields.jl, from schema/: generate.sh HEADER FOLDER.
set -euo pipefail
command -v julia >/dev/null || { echo "bindings/julia needs julia, which bindings/julia/environment.sh installs" >&2; exit 77; }
mkdir -p "$2/src"
julia --startup-file=no -O0 "$(dirname "${BASH_SOURCE[0]}")/gen/generate.jl" "$1" "$2/src/C.jl"
python3 "$(dirname "${BASH_SOURCE[0]}")/../../schema/generate.py" julia >"$2/src/fields.jl"
