#!/bin/sh
# fa-emu's options reach the library; mistakes are reported. Usage: wrapper.sh FA_EMU DRIVER_TEST
set -u
emu=$1 program=$2
json=$(mktemp) || exit 1
trap 'rm -f "$json"' EXIT
fail() {
  echo "$1"
  exit 1
}
"$emu" --device sm_80,sm_90a --memory 64M --seed 3 --quiet --json "$json" -- "$program" \
  --gtest_filter='Streams.OperationsRunInOrderAndLater:Contexts.*' || fail "the program failed under fa-emu"
[ -s "$json" ] || fail "--json wrote nothing"
"$emu" --driver 12040 --fail 3 --quiet "$program" --gtest_filter='Settings.*' || fail "--driver or --fail did not work"
"$emu" --device sm_80:sms=0:fast "$program" --gtest_filter='Contexts.*' 2>&1 | grep -q "'sms=0' is not a property" ||
  fail "a property that makes no sense was taken"
said=$("$emu" --device sm_9,sm_99 "$program" --gtest_filter='Contexts.StackAndDevices' 2>&1)
for part in "unknown device 'sm_9'; known devices: sm_75, " "unknown device 'sm_99'; using the limits of sm_90 (known: sm_75, "; do
  case $said in
    *"$part"*) ;;
    *) fail "of the devices sm_9 and sm_99 it did not say: $part" ;;
  esac
done
for wrong in "--device sm_80:sms=2:taken=2|of 2 multiprocessors taken=2 leaves 0" \
  "--device sm_80:sms=4:taken=2:slow=3|taken=2 leaves 2, slow=3 needs 3" "--device sm_80:slow=|'slow=' is not a property" \
  "--fail cuNothing|FA_EMU_FAIL=cuNothing is neither" "--fp8-sums short|FA_EMU_FP8_SUMS=short is neither hardware nor exact"; do
  # shellcheck disable=SC2086 # options and their values are words
  said=$("$emu" ${wrong%%|*} "$program" --gtest_filter='Contexts.*' 2>&1) && fail "the program ran with ${wrong%%|*}"
  case $said in
    *"${wrong#*|}"*) ;;
    *) fail "of ${wrong%%|*} it did not say why nothing runs: $said" ;;
  esac
done
"$emu" --nonsense true 2>/dev/null && fail "an unknown option was taken"
"$emu" --device 2>/dev/null && fail "--device without a value was taken"
"$emu" --check --fail-on warning --suppress /dev/null --timeout 60 --progress 30 --timeline "$json" --threads 1 -- \
  "$program" --gtest_filter=Streams.OperationsRunInOrderAndLater || fail "the program failed under its checks"
grep -q traceEvents "$json" || fail "--timeline wrote no trace"
said=$("$emu" --fail-on nothing --timeout soon "$program" --gtest_filter='Contexts.*' 2>&1)
for part in "FA_EMU_FAIL_ON=nothing is not a severity" "FA_EMU_TIMEOUT=soon is not a number of seconds"; do
  case $said in
    *"$part"*) ;;
    *) fail "of --fail-on nothing --timeout soon it did not say: $part" ;;
  esac
done
said=$("$emu" --quiet --seed soon "$program" --gtest_filter='Contexts.*' 2>&1) && fail "the program ran with --seed soon"
case $said in
  *"FA_EMU_SEED=soon is not a number"*) ;;
  *) fail "of --seed soon it did not say why nothing runs: $said" ;;
esac
# Triton calls this in place of ptxas: PTX stays PTX.
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$json" "$folder"' EXIT
echo "// a kernel" >"$folder/a kernel.ptx"
for name in TRITON_PTXAS_PATH TRITON_PTXAS_BLACKWELL_PATH; do
  ptxas=$("$emu" -- sh -c "echo \"\$$name\"")
  "$ptxas" --version | grep -q 'release [0-9]*\.[0-9]' || fail "$name=$ptxas has no version that Triton reads"
  "$ptxas" -lineinfo -v --gpu-name=sm_90a "$folder/a kernel.ptx" -o "$folder/$name" || fail "$name=$ptxas failed"
  cmp -s "$folder/a kernel.ptx" "$folder/$name" || fail "$name=$ptxas did not copy its PTX"
  "$ptxas" "$folder/a kernel.ptx" 2>/dev/null && fail "$name=$ptxas ran without -o"
  [ "$(env "$name=mine" "$emu" -- sh -c "echo \"\$$name\"")" = mine ] || fail "$name of the environment was replaced"
done
"$emu" --help | grep -q -- --strict || fail "--help does not list --strict"
exit 0
