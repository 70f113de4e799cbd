#!/bin/bash
# The wheel, as a new user gets it: built from the source distribution, audited (abi3audit, auditwheel: manylinux_2_34 or older), then
# installed into an empty environment of every CPython from 3.10 on that is found, where the README's first example and the
# client run outside of the source tree. Usage: wheel.sh PYTHON SOURCE FOLDER WERROR; PYTHON is the one with the tools, WERROR
# is FA_WERROR of the build tree, whose objects ccache, where it is, then has for the wheel; elsewhere it is not optimised, which
# would take a minute.
set -euo pipefail
python=$1
source=$2
folder=$3
werror=$4
mkdir -p "$folder"
rm -rf "$folder"/source "$folder"/wheel "$folder"/repaired "$folder"/environment
cd "$folder"
PATH=$(dirname "$python"):$PATH

"$python" -m build --sdist --no-isolation --outdir source "$source" >sdist.log 2>&1 || { cat sdist.log >&2 && exit 1; }
! grep -i deprecated sdist.log >&2 || exit 1
tar -xzf source/libfa-*.tar.gz -C source --strip-components=1
# Every script that the build or another of its scripts runs is there.
for script in $(cd source && grep -ohE '\b[a-z0-9_]+[.](sh|py)\b' CMakeLists.txt cmake/*.cmake kernels/CMakeLists.txt scripts/* | sort -u); do
  if [ -e "$source/scripts/$script" ] && [ ! -e "source/scripts/$script" ]; then
    echo "the sdist lacks scripts/$script" >&2 && exit 1
  fi
done
options=(--config-settings=cmake.define.FA_WERROR="$werror")
command -v ccache >/dev/null || options=(--config-settings=cmake.define.CMAKE_CXX_FLAGS_RELEASE=-O0)
"$python" -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir wheel \
  --config-settings=build-dir="$folder/source/build/wheel" "${options[@]}" "$folder/source"
built=$(ls wheel/libfa-*-cp310-abi3-linux_*.whl)
abi3audit --strict "$built"
auditwheel show "$built" | tr '\n' ' ' | grep -oE 'manylinux_2_[0-9]+' | head -n 1 | tee tag
minor=$(sed 's/manylinux_2_//' tag)
[ "$minor" -le 34 ] || { echo "expected manylinux_2_34 or older" >&2 && exit 1; }
auditwheel repair --plat "$(cat tag)_$(uname -m)" --wheel-dir repaired "$built"
wheel=$(ls repaired/*.whl)
[ "$(unzip -l "$wheel" | grep -c '\.so')" -le 3 ] || { echo "the wheel holds libraries that are not ours" >&2 && exit 1; }

"$python" -c 'import re, sys
print(re.search("```python\n(.*?)```", open(sys.argv[1]).read(), re.S)[1])' "$source/bindings/python/README.md" >example.py
tried=0
while read -r interpreter; do
  "$interpreter" -c 'import sys; sys.exit(sys.version_info < (3, 10) or sys.implementation.name != "cpython")' 2>/dev/null || continue
  rm -rf environment
  "$interpreter" -m venv --without-pip environment
  "$python" -m pip --python environment/bin/python install --quiet --disable-pip-version-check "$wheel" numpy
  environment/bin/python -I example.py
  environment/bin/python -I "$source/bindings/python/tests/client.py"
  environment/bin/python -I -m libfa | head -n 2
  tried=$((tried + 1))
done < <({ ls -d /usr/bin/python3.[0-9]* /usr/local/bin/python3.[0-9]* "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3 |
  grep -E 'python3(\.[0-9]+)?$'; } 2>/dev/null)
[ "$tried" -gt 0 ] || { echo "no CPython from 3.10 on was found" >&2 && exit 1; }
echo "$(basename "$wheel"): on $tried interpreters"
