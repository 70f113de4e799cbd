#!/usr/bin/env bash
# A failure or a skip on the emulated CPU is a failure outside, and so is a CPU that lacks something: emulate_avx512.sh SOURCE
set -euo pipefail
status=0

# expect STATUS TEXT COMMAND...: the exit status of COMMAND, which emulates, and a text in its output.
expect() {
  local expected=$1 text=$2 printed result=0
  shift 2
  printed=$("$@" 2>&1) || result=$?
  if [[ $result != "$expected" || $printed != *"$text"* ]]; then
    echo "$*: exit status $result, printed '$printed'; expected $expected and '$text'"
    status=1
  fi
}
emulate=$1/scripts/emulate_avx512.sh
expect 3 "two words of x y" env FA_SAID="x y" "$emulate" /bin/sh -c 'echo two words of "$FA_SAID"; exit 3'
expect 1 "exit status 77" "$emulate" /bin/sh -c "exit 77"
expect 1 "the emulated CPU lacks avx512_bf16" env EMULATED_WITHOUT=avx512bf16 "$emulate" /bin/sh -c "exit 0"
exit "$status"
