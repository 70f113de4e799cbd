#!/bin/sh
# optimised.sh: as part of another project the CPU's kernels are compiled with -O3, whatever that project's build type, and
# not where its flags or libfa's own options say that something watches them. Nothing is compiled: the commands are looked at.
set -eu
build=$WORK/optimised
rm -rf "$build"
mkdir -p "$build"
echo 'add_compile_options(-fsanitize=undefined)' >"$build/watched.cmake"
printf '%s\n' 'set(CMAKE_CONFIGURATION_TYPES Debug Watched)' 'set(CMAKE_CXX_FLAGS_WATCHED "-O1 -fsanitize=address")' >"$build/two.cmake"
status=0

# levels FOLDER REGEX: the last -O flag of each matching source's command, each once, on one line; "none" for no flag.
levels() {
  tr -d '\\' <"$1/compile_commands.json" | sed -n 's/^ *"command": "\(.*\)",$/\1/p' | grep -E -- "$2" | while read -r command; do
    level=none
    for word in $command; do case $word in -O*) level=$word ;; esac; done
    echo "$level"
  done | sort -u | paste -sd ' ' -
}

# expect KERNELS REST ARGUMENT...: with which -O the kernels, and all other files, are compiled.
expect() {
  kernels=$1 rest=$2
  shift 2
  rm -rf "$build/tree"
  "$CMAKE" -B "$build/tree" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DFA_BUILD_EXAMPLES=OFF "$@" >"$build/log" 2>&1 ||
    { cat "$build/log" && exit 1; }
  for pair in "$kernels:fa_cpu.dir/${configuration}isa/" "$rest:fa_front.dir/${configuration}api/"; do
    found=$(levels "$build/tree" "${pair#*:}")
    [ "$found" = "${pair%%:*}" ] || { echo "with $*: ${pair#*:} by '$found', expected '${pair%%:*}'" && status=1; }
  done
}
configuration=
part() {
  expect "$@" -S "$SOURCE/tests/install/c_only" -DFETCHCONTENT_SOURCE_DIR_FA="$SOURCE" -DCLIENT="$SOURCE/tests/abi/client.c" \
    -DMINIMAL="$SOURCE/examples/minimal.c"
}

part -O3 none
part -O3 none -DCMAKE_BUILD_TYPE=Debug
part -O3 -O2 -DCMAKE_BUILD_TYPE=RelWithDebInfo
part -O3 -Os -DCMAKE_BUILD_TYPE=MinSizeRel
part -O3 -O0 -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS=-O0
part none none -DFA_OPTIMISE=OFF
part none none -DFA_SANITIZE=address
part none none -DFA_COVERAGE=ON
part none none -DCMAKE_CXX_FLAGS=-fsanitize=thread
part none none -DCMAKE_CXX_FLAGS=--coverage
part none none -DCMAKE_BUILD_TYPE=Watched -DCMAKE_CXX_FLAGS_WATCHED=-fsanitize=address
part none none -DCMAKE_PROJECT_INCLUDE="$build/watched.cmake"

# Each of several configurations has its own flags.
CMAKE_GENERATOR="Ninja Multi-Config" configuration=Debug/
part -O3 none -DCMAKE_PROJECT_INCLUDE="$build/two.cmake"
configuration=Watched/
part -O1 -O1 -DCMAKE_PROJECT_INCLUDE="$build/two.cmake"

# libfa's own builds are as their type says.
CMAKE_GENERATOR=Ninja configuration=
own() {
  expect "$@" -S "$SOURCE" -DFA_KERNELS=off -DFA_BUILD_TESTS=OFF -DFA_BUILD_TOOL=OFF -DFA_BUILD_BENCH=OFF -DFA_BUILD_EMULATOR=OFF
}
own -O3 -O3
own -Og -Og -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-Og -g"
exit $status
