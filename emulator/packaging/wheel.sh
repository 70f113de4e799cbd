#!/bin/sh
# Makes a wheel of a build: fa_emu-VERSION-py3-none-PLATFORM.whl, which has the library in a separate folder and fa-emu on
# PATH. Usage: wheel.sh BUILD FOLDER [PYTHON [PLATFORM]]; PYTHON has pip, PLATFORM is linux_x86_64 or the like.
#
# Where the build has -DEMU_STATIC=ON, the wheel needs nothing but glibc; `auditwheel show` says which manylinux tag it may
# have.
set -eu
build=$(cd "$1" && pwd)
mkdir -p "$2"
folder=$(cd "$2" && pwd)
python=${3:-python3}
platform=${4:-linux_$(uname -m)}

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
cmake --install "$build" --component wheel --strip --prefix "$stage" >/dev/null
printf '[bdist_wheel]\nplat_name = %s\npython_tag = py3\n' "$platform" >"$stage/setup.cfg"
"$python" -m pip --quiet --disable-pip-version-check wheel --no-deps --wheel-dir "$folder" "$stage"
