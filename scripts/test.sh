#!/usr/bin/env bash
# The tests of libfa: installs their requirements, then for each preset builds, runs its ctest suites, and at the end shows the
# summary of each.
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # it was called as: sh SCRIPT
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
cd "$root"

usage() {
  cat <<'TEXT'
usage: scripts/test.sh [PRESET...] [-- CTEST ARGUMENTS]
       scripts/test.sh --install-only [PRESET...]

  PRESET   quick        the library, the tool, one emulated GPU of each family of kernels, the bindings without torch (Rust's
                        and Julia's where these are installed)          (when none is named)
           all          the rest: ci asan-ubsan tsan neon coverage, and avx512 where the CPU lacks AVX512-BF16. Tests of ci
                        that quick has just passed on the same sources are not repeated; of the longest groups of tests one
                        of two or three runs, which change from commit to commit (cmake/test_rotation.cmake): name the
                        presets to run all of them
           release      every suite as it is installed, of every GPU architecture
           asan-ubsan   every suite under AddressSanitizer and UndefinedBehaviorSanitizer
           tsan         the suites of code with threads under ThreadSanitizer
           ci           as release, with warnings as errors; of the GPU architectures 75, 80, 90a, 100a and 120
           debug        every suite, little optimised
           neon         the engine for 64-bit ARM, under qemu-user
           avx512       the kernels for AVX-512, with and without BF16, on an emulated CPU; a sample of the cases where
                        release or ci comes before it, as every suite has run on this CPU or on the model of AVX-512
           valgrind     a quick selection under valgrind
           coverage     a selection, then the line coverage of src/, which must be 95 % or more

  The sanitizers watch the CUDA engine, too, where release or ci comes before them: its emulator and kernels are used, and
  by coverage, too, which otherwise builds its own.

  --install-only installs the Debian packages that configuring, building and testing these presets needs, and ends. The needs of
  the bindings' tests are left to bindings/LANGUAGE/environment.sh.

  scripts/test.sh quick -- -R forward.bf16         some tests of one preset
  scripts/test.sh release -- -L avx2               the tests with a label
  FA_JOBS=1 scripts/test.sh                        less memory
  FA_TEST_TORCH=1 scripts/test.sh all              with torch, transformers and JAX, as CI=true does (7 GB, kept in ~/.cache)
TEXT
}

presets=()
emulated_cpu=(avx512)
if grep -q avx512_bf16 /proc/cpuinfo 2>/dev/null; then # ci runs all of its suites on this CPU
  emulated_cpu=()
fi
all=
install_only=
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --) shift && break ;;
    --install-only) install_only=yes ;;
    all) all=yes && presets+=(ci asan-ubsan tsan neon "${emulated_cpu[@]}" coverage) ;;
    quick | release | asan-ubsan | tsan | ci | debug | neon | avx512 | valgrind | coverage) presets+=("$1") ;;
    *)
      echo "unknown preset: $1" >&2
      step_advice="use one that scripts/test.sh --help lists"
      exit 2
      ;;
  esac
  shift
done
[ ${#presets[@]} -gt 0 ] || presets=(quick)

packages=("${build_packages[@]}" gcc libc6-dev libgtest-dev googletest libbenchmark-dev binutils ccache)
packages+=(clang tcc libaugeas-dev) # tests/abi: other compilers, the neighbour
packages+=(gfortran luajit ruby)    # tests/clients: other languages
packages+=(libopenmpi-dev openmpi-bin) # examples/ring_mpi.c
packages+=(zsh fish)                # tests/tool: shells that complete
packages+=(libzstd-dev liblz4-dev) # the emulator: compressed kernels
for preset in "${presets[@]}"; do
  case $preset in
    neon) packages+=(gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user) ;;
    avx512) packages+=(cpio xorriso bsdutils) ;;
    valgrind) packages+=(valgrind libc6-dbg) ;;
    coverage) packages+=(gcovr) ;;
  esac
done
python3 -m pip --version >/dev/null 2>&1 || packages+=(python3 python3-pip) # nvcc may come from PyPI
step "Looking for the compilers and the libraries of the tests" "see above"
need_packages "${packages[@]}"
need_cmake
[ -z "$install_only" ] || exit 0

# The bindings are tested in the builds without instruments: programs in other languages could not load an instrumented library.
bindings_of() {
  [ "$1" = quick ] || { echo "python;rust;julia" && return; }
  echo "python$(command -v cargo >/dev/null && echo ";rust")$(command -v julia >/dev/null && echo ";julia")"
}

# fetch_environments PRESET: each binding has an environment.sh, which fetches its needs.
fetch_environments() {
  local language
  for language in $(bindings_of "$1" | tr ';' ' '); do
    if [ "$1" = quick ]; then
      CI=false FA_TEST_TORCH=0 bash "bindings/$language/environment.sh" || return
    else
      bash "bindings/$language/environment.sh" || return
    fi
  done
  [ "$1" != quick ] || return 0
  sh emulator/third_party_kernels/python.sh "${XDG_CACHE_HOME:-$HOME/.cache}/fa-emu/strangers" install || [ $? -eq 77 ] || return
  sh emulator/third_party_kernels/packages.sh "${XDG_CACHE_HOME:-$HOME/.cache}/libfa/python/bin/python" \
    "${XDG_CACHE_HOME:-$HOME/.cache}/fa-emu/packages" install || [ $? -eq 77 ] || return
  [[ " ${presets[*]} " != *" avx512 "* ]] || scripts/fetch_bochs.sh
}

# build_while_fetching PRESET: the bindings' requirements come from networks, while kernels and the emulator are compiled.
build_while_fetching() {
  local preset=$1 log=$logs/environments.$1.log environments
  say "Fetching the requirements of the bindings' tests, meanwhile; the log is $log"
  fetch_environments "$preset" >"$log" 2>&1 &
  environments=$!
  configure_and_build "$preset" "${options[@]}" -DFA_BUILD_BINDINGS=OFF --target fa_kernels fa_emulator_builds
  step "Waiting for the requirements of the bindings' tests" "see $log, whose end is above"
  if ! wait "$environments"; then
    tail -n 40 "$log" >&2
    exit 1
  fi
}

# measure_coverage LOG: a line counts when any ISA's build of it ran. The kernels of AVX-512 ran on the model of tests/model;
# src/cpu/isa/neon.* is not compiled for this architecture, and so not among the lines (the preset neon tests it).
measure_coverage() {
  step "Line coverage of src/" "build/coverage/html/index.html shows the lines that no test runs: test them"
  mkdir -p build/coverage/html
  gcovr --root . --object-directory build/coverage --filter 'src/' --exclude-throw-branches --sort-uncovered \
    --txt build/coverage/lines.txt --html-details build/coverage/html/index.html --print-summary --fail-under-line 95 |
    tee -a "$1"
  awk 'NF >= 4 && $2 != $3 && /%/' build/coverage/lines.txt # the files with lines that did not run
}

# state_of_sources: a number of all files that git does not ignore; nothing where this is no clone.
state_of_sources() {
  git rev-parse HEAD >/dev/null 2>&1 || return 0
  { git rev-parse HEAD && git diff HEAD && git ls-files -oz --exclude-standard | xargs -0r sha256sum; } | sha256sum
}

if [ -n "$all" ]; then
  FA_TEST_ROTATION=$(git rev-list --count HEAD 2>/dev/null || echo 0)
  export FA_TEST_ROTATION
  say "Of the longest groups of tests those of commit number $FA_TEST_ROTATION run: name the presets to run all"
fi

# Only libfa is instrumented: its CUDA engine uses the emulator and the kernels of a build without instruments, which are
# compiled once.
emulated_by=

logs=build/logs
mkdir -p "$logs"
fetched=
for preset in "${presets[@]}"; do
  options=()
  targets=()
  tests=$preset
  case $preset in
    quick)
      options=(-DFA_BUILD_BINDINGS=ON -DFA_REQUIRE_BINDINGS=OFF "-DFA_BINDINGS=$(bindings_of quick)")
      targets=(--target src/all tools/all examples/all tests/all bindings/all fa_emulator_builds)
      ;;
    release) options=(-DFA_BUILD_BINDINGS=ON -DFA_REQUIRE_BINDINGS=ON -DFA_BUILD_EMULATOR=ON -DEMU_OPTIMISE=all -DFA_KERNELS=embed) ;; # not in quickstart.sh
    ci)
      options=(-DFA_BUILD_BINDINGS=ON -DFA_REQUIRE_BINDINGS=ON "-DFA_BINDINGS=$(bindings_of ci)")
      if [ -s "$logs/quick.passed" ] && [ "$(state_of_sources)" = "$(cat "$logs/quick.passed")" ]; then
        say "scripts/test.sh has passed quick on these sources, whose tests are left out of ci"
        tests=after-quick
      fi
      ;;
    avx512) scripts/fetch_bochs.sh ;;
    asan-ubsan | tsan | coverage)
      options=("-DFA_EMULATED_BY=$emulated_by")
      if [ -n "$emulated_by" ]; then
        options+=(-DFA_KERNELS=file "-DFA_ARCHS=80;75" -DFA_BUILD_EMULATOR=OFF)
      elif [ "$preset" = coverage ]; then
        options+=(-DFA_KERNELS=embed -DFA_BUILD_EMULATOR=ON) # its own: coverage measures all of it
      else
        say "The CUDA engine is left out of $preset: name release or ci before it"
      fi
      ;;
  esac
  if [[ $preset =~ ^(ci|release|quick)$ && $preset != "$fetched" ]]; then
    build_while_fetching "$preset"
    fetched=$preset
  fi
  configure_and_build "$preset" "${options[@]}" "${targets[@]}"
  [[ $preset != ci && $preset != release ]] || emulated_by=$root/build/$preset
  [ "$preset" != coverage ] || find build/coverage -name '*.gcda' -delete # counts of an earlier run
  if [ "$preset" = avx512 ] && [ -n "$emulated_by" ]; then
    say "All suites ran in $emulated_by, with this CPU's AVX-512 or the model of it: a sample of their cases is emulated"
    tests=avx512-sample
  fi
  step "Testing the preset $preset" "run one test alone: ctest --preset $tests -R NAME -V; the log is $logs/$preset.log"
  rm -f "$logs/$preset.passed"
  ctest --preset "$tests" -j "$jobs" "$@" 2>&1 | tee "$logs/$preset.log"
  [ "$preset" != quick ] || [ $# -gt 0 ] || state_of_sources >"$logs/quick.passed"
  [ "$preset" != coverage ] || measure_coverage "$logs/coverage.log"
done

say "Summary"
for preset in "${presets[@]}"; do
  echo "-- $preset"
  grep -E '^[0-9]+% tests passed|^Total Test time|^lines:' "$logs/$preset.log"
done
